"""All scores of a set of translations, as scores.json keeps them."""

import dataclasses
import math

from trainers.scores import metrics
from trainers.scores.metrics import score_compound_split


@dataclasses.dataclass(frozen=True)
class Perplexity:
    """exp of the mean negative log-probability of a token, un-smoothed.

    Attributes:
        per_token: a token is a piece of the model's vocabulary, the end of
            each sentence counted; no comparison with another vocabulary's.
        tokens: how many went in.
        left_out: pairs left out because a side is longer than the model
            takes.
    """

    per_token: float
    tokens: int
    left_out: int


def measure_perplexity(translator, evaluation_set):
    """Measures it over all references that are scored, each with its source.

    Args:
        translator: Translator or ExportedTranslator.
        evaluation_set: EvaluationSet.

    Returns:
        Perplexity, or None where every pair is too long.
    """
    pairs = [
        (evaluation_set.sources[place], reference)
        for place in evaluation_set.scored_indices
        for reference in evaluation_set.references[place]
    ]
    sources, references = map(list, zip(*pairs))
    lengths = zip(translator.lengths(sources), translator.lengths(references))
    kept = [
        (*pair, target)
        for pair, (source, target) in zip(pairs, lengths)
        if source is not None and target is not None
    ]
    left_out = len(pairs) - len(kept)
    if not kept:
        return None
    sources, references, lengths = map(list, zip(*kept))
    scores = translator.score(sources, references)
    tokens = sum(lengths)
    return Perplexity(math.exp(-math.fsum(scores) / tokens), tokens, left_out)


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What a set of translations is worth, by each measure.

    Attributes:
        bleu: Score.
        interval: Interval of it.
        chrf: Score.
        compound_split: Score.
        perplexity: Perplexity of the references, or None.
        sentences: number of sources that were scored.
        references: number of their references.
        not_scored: number of sources without text or without a reference.
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
        """What is printed: a list of str."""
        lines = [
            self.bleu.line,
            f"95 % of resampled sets: {self.interval.low:.2f} to "
            f"{self.interval.high:.2f} ({self.interval.how})",
            self.chrf.line,
            self.compound_split.line.replace("BLEU", "compound-split BLEU", 1),
        ]
        if self.perplexity is not None:
            lines.append(
                f"perplexity = {self.perplexity.per_token:.4f} a token, over "
                f"{self.perplexity.tokens:,} tokens of "
                f"{self.references - self.perplexity.left_out:,} references"
            )
        if self.not_scored:
            every = self.sentences + self.not_scored
            lines.append(
                f"Not scored: {self.not_scored:,} of {every:,} lines, which "
                "have no source or no reference."
            )
        return lines

    def record(self):
        """Returns the scores as a dict for scores.json."""
        record = {
            "metric": "BLEU",
            **_rounded(self.bleu),
            "confidence_95": [
                round(self.interval.low, 4),
                round(self.interval.high, 4),
            ],
            "bootstrap": self.interval.how,
            "reference_length": self.bleu.reference_length,
            "chrf": _rounded(self.chrf),
            "compound_split_bleu": _rounded(self.compound_split),
        }
        if self.perplexity is not None:
            record["perplexity"] = dataclasses.asdict(self.perplexity)
        return record | {
            "sentences": self.sentences,
            "references": self.references,
            "not_scored": self.not_scored,
        }


def evaluate(hypotheses, evaluation_set, tokenize, perplexity=None):
    """Scores translations by every measure.

    Args:
        hypotheses: list of str, one for each source.
        evaluation_set: EvaluationSet.
        tokenize: name of sacreBLEU's tokeniser.
        perplexity: Perplexity, or None where it was not measured.

    Returns:
        Evaluation.
    """
    places = evaluation_set.scored_indices
    scored = evaluation_set.subset(places)
    texts = ([hypotheses[place] for place in places], scored)
    return Evaluation(
        metrics.score_bleu(*texts, tokenize),
        metrics.bleu_interval(*texts, tokenize),
        metrics.score_chrf(*texts),
        score_compound_split(*texts, tokenize),
        perplexity,
        len(places),
        sum(map(len, scored.references)),
        len(hypotheses) - len(places),
    )


def _rounded(score):
    return {"score": round(score.score, 4), "signature": score.signature}
