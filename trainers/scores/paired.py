"""Whether one system translates better than another: a paired bootstrap.

Koehn 2004: both are scored on the same resampled sentences, so that what makes
sentences easy or hard for both does not count.
"""

import dataclasses

import numpy as np

from trainers.scores import bleu_tokenizers
from trainers.scores.metrics import BOOTSTRAP_SAMPLES

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
