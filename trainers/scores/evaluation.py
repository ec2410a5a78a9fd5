"""Scores a set of translations by every metric of scores.json."""

import dataclasses
import math

from export.common.progress_bar import ProgressBar
from trainers.scores import metrics


@dataclasses.dataclass(frozen=True)
class Perplexity:
    """exp of the mean negative log-probability of a token, un-smoothed.

    `per_token` is not comparable between vocabularies; `tokens` includes end
    tokens; `skipped` pairs exceed the model's maximum length.
    """

    per_token: float
    tokens: int
    skipped: int


def measure_perplexity(translator, evaluation_set):
    """Returns the Perplexity of all references given their sources.

    It is None if every pair is too long. The translator is a Translator or an
    ExportedTranslator.
    """
    pairs = [
        (evaluation_set.sources[index], reference)
        for index in evaluation_set.scored_indices
        for reference in evaluation_set.references[index]
    ]
    sources, references = map(list, zip(*pairs))
    lengths = zip(translator.lengths(sources), translator.lengths(references))
    fitting = [
        (*pair, target_length)
        for pair, (source_length, target_length) in zip(pairs, lengths)
        if source_length is not None and target_length is not None
    ]
    if not fitting:
        return None
    sources, references, lengths = map(list, zip(*fitting))
    scores = translator.score(sources, references)
    tokens = sum(lengths)
    per_token = math.exp(-math.fsum(scores) / tokens)
    return Perplexity(per_token, tokens, len(pairs) - len(fitting))


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Scores of a set of translations by every metric.

    `sentences` and `references` are the numbers of scored sources and of their
    references, `not_scored` the number of sources without text or reference.
    """

    bleu: metrics.Score
    interval: metrics.Interval
    chrf: metrics.Score
    compound_split: metrics.Score
    perplexity: Perplexity | None
    sentences: int
    references: int
    not_scored: int

    @property
    def lines(self):
        """The lines to print, list of str."""
        interval, perplexity = self.interval, self.perplexity
        lines = [
            self.bleu.line,
            f"95 % of resampled sets: {interval.low:.2f} to "
            f"{interval.high:.2f} ({interval.bootstrap})",
            self.chrf.line,
            self.compound_split.line.replace("BLEU", "compound-split BLEU", 1),
        ]
        if perplexity is not None:
            lines.append(
                f"perplexity = {perplexity.per_token:.4f} a token, over "
                f"{perplexity.tokens:,} tokens of "
                f"{self.references - perplexity.skipped:,} references"
            )
        if self.not_scored:
            total = self.sentences + self.not_scored
            lines.append(
                f"Not scored: {self.not_scored:,} of {total:,} lines, which "
                "have no source or no reference."
            )
        return lines

    def record(self):
        """Returns the scores as a dict for scores.json."""
        record = {
            "metric": "BLEU",
            **self.bleu.record(),
            **self.interval.record(),
            "reference_length": self.bleu.reference_length,
            "chrf": self.chrf.record(),
            "compound_split_bleu": self.compound_split.record(),
            "sentences": self.sentences,
            "references": self.references,
            "not_scored": self.not_scored,
        }
        if self.perplexity is not None:
            record["perplexity"] = dataclasses.asdict(self.perplexity)
        return record


def translate_sentences(translator, sources):
    """Returns the translations, a list of str, with a progress bar."""
    print(
        f"Translating {len(sources):,} sentences, beam {translator.beam_size}.",
        flush=True,
    )
    with ProgressBar("Translating", len(sources), "sentences") as bar:
        translations = translator.translate(list(sources), bar.update)
    return [translation.text for translation in translations]


def evaluate(hypotheses, evaluation_set, tokenize, perplexity=None):
    """Returns the Evaluation of translations, a str for each source.

    `tokenize` is the name of sacreBLEU's tokenizer.
    """
    indices = evaluation_set.scored_indices
    scored = evaluation_set.subset(indices)
    texts = [hypotheses[index] for index in indices]
    return Evaluation(
        bleu=metrics.score_bleu(texts, scored, tokenize),
        interval=metrics.bleu_interval(texts, scored, tokenize),
        chrf=metrics.score_chrf(texts, scored),
        compound_split=metrics.score_compound_split(texts, scored, tokenize),
        perplexity=perplexity,
        sentences=len(indices),
        references=sum(map(len, scored.references)),
        not_scored=len(hypotheses) - len(indices),
    )
