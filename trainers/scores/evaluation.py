"""Corpus scores by sacreBLEU, with signature and interval, and perplexity.

Compound-split BLEU is the paper's metric, from get_ende_bleu.sh in the authors'
first code: typographic quotes are replaced by ASCII, and "rich-text" counts as
the three tokens "rich ##AT##-##AT## text"; no smoothing, case-sensitive. The
tokenizer is sacreBLEU's instead of Moses'; the signature names it.
"""

import dataclasses
import math
import re
import typing
from collections.abc import Iterable, Sequence

import numpy as np
import sacrebleu
from tabulate import tabulate

from export.common.progress_bar import ProgressBar
from export.lines.streams import print_line_warning
from trainers.augmentation.noise import CASE_KINDS, change_text
from trainers.scores import bleu_tokenizers

if typing.TYPE_CHECKING:
    from export.translators.translator import Translator

# trainers.data.corpus.EvaluationSet, which this package does not import.
EvaluationSet: typing.TypeAlias = typing.Any

# Resampled sets of a 95 % interval (Koehn 2004), and sacreBLEU's seed.
BOOTSTRAP_SAMPLES = 1000
BOOTSTRAP_SEED = 12345

_QUOTES = str.maketrans(
    {**dict.fromkeys("„“”«»", '"'), **dict.fromkeys("‚‘’", "'")}
)
# ASCII, because the authors' Perl does not treat a no-break space as white
# space.
_HYPHEN = re.compile(r"(\S)-(\S)", re.ASCII)
_SPLIT = r"\1 ##AT##-##AT## \2"


@dataclasses.dataclass(frozen=True)
class Score:
    """A corpus score, 0 to 100, with sacreBLEU's signature and output line.

    `reference_length` is the number of reference tokens, 0 for chrF.
    """

    score: float
    signature: str
    line: str
    reference_length: int = 0

    def record(self) -> dict[str, typing.Any]:
        """Returns score and signature for scores.json."""
        return {"score": round(self.score, 4), "signature": self.signature}


@dataclasses.dataclass(frozen=True)
class Interval:
    """A 95 % interval; `bootstrap` has the number of resamples and the seed."""

    low: float
    high: float
    bootstrap: str

    @classmethod
    def around(cls, mean: float, half_width: float, seed: int) -> typing.Self:
        """Returns the interval around a mean, clipped to 0 to 100."""
        return cls(
            float(max(mean - half_width, 0.0)),
            float(min(mean + half_width, 100.0)),
            f"bs:{BOOTSTRAP_SAMPLES}|seed:{seed}",
        )

    def line(self, name: str = "") -> str:
        """Returns the interval as a line of text."""
        return (
            f"95 % of resampled sets: {name}{self.low:.2f} to {self.high:.2f} "
            f"({self.bootstrap})"
        )

    def record(self) -> dict[str, typing.Any]:
        """Returns the interval for scores.json."""
        return {
            "confidence_95": [round(self.low, 4), round(self.high, 4)],
            "bootstrap": self.bootstrap,
        }


def score_bleu(
    hypotheses: Sequence[str],
    evaluation_set: EvaluationSet,
    tokenize: str,
    lowercase: bool = False,
) -> Score:
    """Returns BLEU, case-sensitive unless `lowercase`.

    `hypotheses` has a translation for each source, `tokenize` the name of a
    sacreBLEU tokenizer.
    """
    metric = bleu_tokenizers.make_bleu(tokenize, lowercase=lowercase)
    return _score(metric, hypotheses, evaluation_set)


def bleu_interval(
    hypotheses: Sequence[str],
    evaluation_set: EvaluationSet,
    tokenize: str,
    lowercase: bool = False,
) -> Interval:
    """Returns the Interval of `score_bleu`, with the seed SACREBLEU_SEED."""
    metric = bleu_tokenizers.make_bleu(tokenize, lowercase=lowercase)
    streams = evaluation_set.reference_streams()
    result = metric.corpus_score(
        hypotheses, streams, n_bootstrap=BOOTSTRAP_SAMPLES
    )
    return Interval.around(result._mean, result._ci, metric.seed)


def score_chrf(
    hypotheses: Sequence[str], evaluation_set: EvaluationSet
) -> Score:
    """Returns chrF (Popović 2015)."""
    return _score(sacrebleu.CHRF(), hypotheses, evaluation_set)


def _score(metric, hypotheses, evaluation_set, signature_prefix=""):
    result = metric.corpus_score(hypotheses, evaluation_set.reference_streams())
    signature = signature_prefix + str(metric.get_signature())
    return Score(
        result.score,
        signature,
        result.format(signature=signature),
        getattr(result, "ref_len", 0),
    )


def score_compound_split(
    hypotheses: Sequence[str], evaluation_set: EvaluationSet, tokenize: str
) -> Score:
    """Returns compound-split BLEU; arguments of `score_bleu`."""
    metric = bleu_tokenizers.make_bleu(tokenize)

    def split(text):
        return _HYPHEN.sub(_SPLIT, metric.tokenizer(text.translate(_QUOTES)))

    references = tuple(
        tuple(map(split, group)) for group in evaluation_set.references
    )
    return _score(
        sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True),
        list(map(split, hypotheses)),
        dataclasses.replace(evaluation_set, references=references),
        f"quotes:plain|pretok:{metric.tokenizer_signature}|hyphens:split|",
    )


@dataclasses.dataclass(frozen=True)
class Perplexity:
    """exp of the mean negative log-probability of a token, un-smoothed.

    It is not comparable between vocabularies. `tokens` is the number of scored
    tokens, end tokens included, `skipped` the number of pairs above the model's
    maximum length, or without a token of the source.
    """

    per_token: float
    tokens: int
    skipped: int


def measure_perplexity(
    translator: "Translator", evaluation_set: EvaluationSet
) -> Perplexity | None:
    """Returns the references' Perplexity; None if all pairs are skipped."""
    texts = [
        (evaluation_set.sources[index], reference)
        for index in evaluation_set.scored_indices
        for reference in evaluation_set.references[index]
    ]
    pairs = translator.pairs(*zip(*texts))
    # A source without tokens, such as a joiner alone, has the end id.
    fitting = [
        pair for pair in pairs if not pair.truncated and pair.source.length > 1
    ]
    if not fitting:
        return None
    scores = translator.score_pairs(fitting)
    tokens = sum([pair.target.length for pair in fitting])
    per_token = math.exp(-math.fsum(scores) / tokens)
    return Perplexity(per_token, tokens, len(pairs) - len(fitting))


def translators_by_direction(
    translator: "Translator",
    evaluation_set: EvaluationSet,
    languages: tuple[str, str],
) -> list[tuple[tuple[str, str], "Translator", EvaluationSet]]:
    """Returns a list of (languages, translator, EvaluationSet).

    Of a mixture, one for each (source language, target language); otherwise the
    only one has these `languages`.
    """
    return [
        (
            direction or languages,
            translator.for_languages(*direction) if direction else translator,
            part,
        )
        for direction, part in evaluation_set.by_direction()
    ]


def translate_sentences(
    translator: "Translator", sources: Sequence[str]
) -> list[str]:
    """Returns the translations, with a progress bar.

    Warns of sources above the translator's maximum length, which it truncates.
    """
    print(
        f"Translating {len(sources):,} sentences, beam {translator.beam_size}.",
        flush=True,
    )
    with ProgressBar("Translating", len(sources), "sentences") as bar:
        translations = translator.translate(list(sources), bar.update)
    truncated = [
        number
        for number, translation in enumerate(translations, 1)
        if translation.source_truncated
    ]
    print_line_warning(
        "Truncated to the model's maximum length", len(truncated), truncated[:3]
    )
    return [translation.text for translation in translations]


def evaluate(
    hypotheses: Sequence[str],
    evaluation_set: EvaluationSet,
    tokenize: str,
    perplexity: Perplexity | None = None,
) -> tuple[dict[str, typing.Any], list[str]]:
    """Scores translations, one for each source.

    Returns the record for scores.json and the lines to print, BLEU first.
    """
    indices = evaluation_set.scored_indices
    scored = evaluation_set.subset(indices)
    texts = [hypotheses[index] for index in indices]
    bleu = score_bleu(texts, scored, tokenize)
    interval = bleu_interval(texts, scored, tokenize)
    chrf = score_chrf(texts, scored)
    compound_split = score_compound_split(texts, scored, tokenize)
    references = sum(map(len, scored.references))
    not_scored = len(hypotheses) - len(indices)
    record = {
        "metric": "BLEU",
        **bleu.record(),
        **interval.record(),
        "reference_length": bleu.reference_length,
        "chrf": chrf.record(),
        "compound_split_bleu": compound_split.record(),
        "sentences": len(indices),
        "references": references,
        "not_scored": not_scored,
    }
    lines = [
        bleu.line,
        interval.line(),
        chrf.line,
        compound_split.line.replace("BLEU", "compound-split BLEU", 1),
    ]
    if perplexity is not None:
        record["perplexity"] = dataclasses.asdict(perplexity)
        lines.append(
            f"perplexity = {perplexity.per_token:.4f} per token, over "
            f"{perplexity.tokens:,} tokens of "
            f"{references - perplexity.skipped:,} references"
        )
    if not_scored:
        lines.append(
            f"Not scored: {not_scored:,} of {len(hypotheses):,} lines, "
            "without a source or a reference."
        )
    return record, lines


def evaluate_noise(
    translator: "Translator",
    evaluation_set: EvaluationSet,
    tokenize: str,
    kinds: Iterable[str],
    language: str,
) -> tuple[dict[str, typing.Any], list[str]]:
    """Scores translations of sources with each kind of noise.

    `language` is that of the sources; see `noise.SOURCE_KINDS` for kinds, whose
    scores do not regard case if they change it. Returns a dict for scores.json
    and the lines to print, a table.
    """
    record, rows = {}, []
    indices = evaluation_set.scored_indices
    scored = evaluation_set.subset(indices)
    for kind in kinds:
        texts = translate_sentences(
            translator,
            [change_text(kind, source, language) for source in scored.sources],
        )
        arguments = texts, scored, tokenize, kind in CASE_KINDS
        bleu, interval = score_bleu(*arguments), bleu_interval(*arguments)
        record[kind] = bleu.record() | interval.record()
        low, high = interval.low, interval.high
        rows.append([kind, f"{bleu.score:.2f}", f"{low:.2f} to {high:.2f}"])
    header = ["noise", "BLEU", "95 % interval"]
    return record, [tabulate(rows, header, disable_numparse=True)]


def bleu_difference(
    hypotheses: Sequence[str],
    other_hypotheses: Sequence[str],
    evaluation_set: EvaluationSet,
    tokenize: str,
) -> dict[str, typing.Any]:
    """Compares two systems by paired bootstrap resampling (Koehn 2004).

    Returns a dict: `difference`, above 0 if `hypotheses` are better; `low` and
    `high`, its 95 % interval; and `bootstrap`, the number of resamples and the
    seed. sacreBLEU's paired test gives a p-value, but no interval.
    """
    metric = bleu_tokenizers.make_bleu(tokenize)
    references = evaluation_set.reference_streams()
    statistics, other_statistics = (
        np.array(metric._extract_corpus_statistics(texts, references))
        for texts in (hypotheses, other_hypotheses)
    )

    def score(rows):
        return metric._compute_score_from_stats(rows.sum(axis=0).tolist()).score

    def difference(indices):
        return score(statistics[indices]) - score(other_statistics[indices])

    num_sentences = len(hypotheses)
    generator = np.random.default_rng(BOOTSTRAP_SEED)
    resampled = [
        difference(generator.choice(num_sentences, size=num_sentences))
        for _ in range(BOOTSTRAP_SAMPLES)
    ]
    low, high = map(float, np.percentile(resampled, [2.5, 97.5]))
    return {
        "difference": difference(np.arange(num_sentences)),
        "low": low,
        "high": high,
        "bootstrap": f"bs:{BOOTSTRAP_SAMPLES}|seed:{BOOTSTRAP_SEED}",
    }
