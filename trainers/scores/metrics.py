"""Scores of a whole corpus, each with how it was made.

Compound-split BLEU is how the paper's authors counted it. Their figures are of
tokenised text in which "rich-text" counts as the three tokens "rich
##AT##-##AT## text", as in the papers that it compares itself with; typographic
quotes were made plain before. That script of the authors' first code,
get_ende_bleu.sh, tokenised the translations with Moses' tokenizer.perl, took
references that were tokenised already, and counted with multi-bleu.perl: no
smoothing, case kept. Here translations and references are treated alike, and
the tokeniser is the one of sacreBLEU that BLEU itself is counted with; the
signature says which.
"""

import dataclasses
import re

import numpy as np
import sacrebleu

from trainers.scores import bleu_tokenizers

# Of a 95 % interval by bootstrap resampling (Koehn 2004).
BOOTSTRAP_SAMPLES = 1000


@dataclasses.dataclass(frozen=True)
class Score:
    """A score of a whole corpus with how it was made.

    Attributes:
        score: 0 to 100.
        signature: all that decides it besides the texts.
        line: score and its parts in sacreBLEU's format.
        reference_length: tokens of the references that the lengths were
            compared with; 0 for a metric that compares none.
    """

    score: float
    signature: str
    line: str
    reference_length: int = 0


@dataclasses.dataclass(frozen=True)
class Interval:
    """Where 95 % of the scores of resampled sentences lie.

    Attributes:
        low: mean of the resampled scores less half the interval's width, but
            at least 0.
        high: mean plus half the width, but at most 100.
        how: samples and seed, as sacreBLEU signs them.
    """

    low: float
    high: float
    how: str

    @classmethod
    def around(cls, mean, half, seed):
        """Returns the interval of a mean and half a width, as sacreBLEU's.

        Of few sentences the two may lead beyond what a score can be.

        Args:
            mean: of the scores of `BOOTSTRAP_SAMPLES` resampled sets.
            half: half the width between their 2.5 and 97.5 percentiles.
            seed: of the resampling.
        """
        return cls(
            float(max(mean - half, 0.0)),
            float(min(mean + half, 100.0)),
            f"bs:{BOOTSTRAP_SAMPLES}|seed:{seed}",
        )


def score_bleu(hypotheses, evaluation_set, tokenize):
    """Scores translations with sacreBLEU, case kept.

    Args:
        hypotheses: list of str, one for each source.
        evaluation_set: EvaluationSet.
        tokenize: name of sacreBLEU's tokeniser.

    Returns:
        Score.
    """
    return score_with(
        bleu_tokenizers.metric(tokenize), hypotheses, evaluation_set
    )


def bleu_interval(hypotheses, evaluation_set, tokenize):
    """Returns the Interval of what `score_bleu` scores.

    The seed is sacreBLEU's own, 12345 unless SACREBLEU_SEED says otherwise.

    Args:
        hypotheses: as for `score_bleu`.
        evaluation_set: as for `score_bleu`.
        tokenize: as for `score_bleu`.
    """
    metric = bleu_tokenizers.metric(tokenize)
    result = metric.corpus_score(
        hypotheses,
        evaluation_set.reference_streams(),
        n_bootstrap=BOOTSTRAP_SAMPLES,
    )
    return Interval.around(result._mean, result._ci, metric.seed)


def score_chrf(hypotheses, evaluation_set):
    """Scores translations with chrF (Popović 2015), as sacreBLEU does.

    Args:
        hypotheses: list of str, one for each source.
        evaluation_set: EvaluationSet.

    Returns:
        Score.
    """
    return score_with(sacrebleu.CHRF(), hypotheses, evaluation_set)


def score_with(metric, hypotheses, evaluation_set, prefix=""):
    """Scores translations with a metric of sacreBLEU.

    Args:
        metric: a fresh one.
        hypotheses: list of str.
        evaluation_set: EvaluationSet.
        prefix: of the signature, for what was done before.

    Returns:
        Score.
    """
    result = metric.corpus_score(hypotheses, evaluation_set.reference_streams())
    signature = prefix + str(metric.get_signature())
    return Score(
        result.score,
        signature,
        result.format(signature=signature),
        getattr(result, "ref_len", 0),
    )


_QUOTES = str.maketrans(
    {**dict.fromkeys("„“”«»", '"'), **dict.fromkeys("‚‘’", "'")}
)
# ASCII: a no-break space is no white space to the authors' perl.
_HYPHEN = re.compile(r"(\S)-(\S)", re.ASCII)
_SPLIT = r"\1 ##AT##-##AT## \2"


def score_compound_split(hypotheses, evaluation_set, tokenize):
    """Scores translations by compound-split tokenised BLEU.

    Args:
        hypotheses: list of str, one for each source.
        evaluation_set: EvaluationSet.
        tokenize: name of sacreBLEU's tokeniser.

    Returns:
        Score.
    """
    metric = bleu_tokenizers.metric(tokenize)

    def prepared(text):
        return _HYPHEN.sub(_SPLIT, metric.tokenizer(text.translate(_QUOTES)))

    split = dataclasses.replace(
        evaluation_set,
        references=tuple(
            tuple(map(prepared, group)) for group in evaluation_set.references
        ),
    )
    return score_with(
        sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True),
        list(map(prepared, hypotheses)),
        split,
        f"quotes:plain|pretok:{metric.tokenizer_signature}|hyphens:split|",
    )


# sacreBLEU's own.
_SEED = 12345


@dataclasses.dataclass(frozen=True)
class PairedDifference:
    """How much higher one BLEU is than another.

    Attributes:
        difference: of the two scores of all sentences, in points.
        low: 2.5th percentile of the differences on resampled sentences.
        high: 97.5th percentile.
        how: samples and seed, as sacreBLEU signs them.
    """

    difference: float
    low: float
    high: float
    how: str

    @property
    def cell(self):
        """What stands in a table, a str."""
        return f"{self.difference:+.2f} ({self.low:+.2f} to {self.high:+.2f})"

    @property
    def line(self):
        """What is printed, a str."""
        return (
            f"{self.difference:+.2f} BLEU, 95 % of resampled sets: "
            f"{self.low:+.2f} to {self.high:+.2f} (paired {self.how})"
        )


def bleu_difference(hypotheses, others, evaluation_set, tokenize):
    """Compares the BLEU of two systems by paired bootstrap resampling.

    Args:
        hypotheses: list of str, one for each source.
        others: the same of the system that is compared with.
        evaluation_set: EvaluationSet, of which all sentences are scored.
        tokenize: name of sacreBLEU's tokeniser.

    Returns:
        PairedDifference, above 0 where `hypotheses` are better.
    """
    counts = (
        bleu_counts(texts, evaluation_set, tokenize)
        for texts in (hypotheses, others)
    )
    return difference_of(*counts)


def bleu_counts(texts, evaluation_set, tokenize):
    """Returns what BLEU is computed of, int [sentences, n] array.

    Counts of several test sets, one under the other, are those of one that
    has the sentences of all. A sum of the counts of several systems on the
    same sentences is of a set in which each sentence is there for each of
    them: of trainings that differ in their seed, say.

    Args:
        texts: list of str, one for each source.
        evaluation_set: EvaluationSet, of which all sentences are scored.
        tokenize: name of sacreBLEU's tokeniser.
    """
    metric = bleu_tokenizers.metric(tokenize)
    references = evaluation_set.reference_streams()
    return np.array(metric._extract_corpus_statistics(texts, references))


def difference_of(counts, others):
    """Compares two systems by their `bleu_counts` on the same sentences.

    Args:
        counts: int [sentences, n] array.
        others: the same of the system that is compared with.

    Returns:
        PairedDifference, above 0 where the first is better.
    """
    # How a score follows from counts does not depend on the tokeniser.
    metric = bleu_tokenizers.metric("13a")

    def difference(places):
        ours, theirs = (
            metric._compute_score_from_stats(rows[places].sum(0).tolist())
            for rows in (counts, others)
        )
        return ours.score - theirs.score

    count = len(counts)
    chance = np.random.default_rng(_SEED)
    resampled = [
        difference(chance.choice(count, size=count))
        for _ in range(BOOTSTRAP_SAMPLES)
    ]
    low, high = np.percentile(resampled, [2.5, 97.5])
    return PairedDifference(
        difference(np.arange(count)),
        float(low),
        float(high),
        f"bs:{BOOTSTRAP_SAMPLES}|seed:{_SEED}",
    )
