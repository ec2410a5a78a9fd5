"""What a corpus of so many pairs means for a training and for a disk."""

import dataclasses

# Measured on sentences of 19 words (docs/measured/data.md): 27,000 a second
# on two cores.
PREPARED_PAIRS = 13_500
# Larger ids are stored as int32 (trainers/data/shards.py).
_MOST_UINT16 = 2**16
_LENGTHS_BYTES = 4


@dataclasses.dataclass(frozen=True)
class Data:
    """A corpus.

    Attributes:
        pairs: sentence pairs of the train split; None where not known.
        source_mean: mean length of a source sentence in pieces, the end id
            counted.
        target_mean: of a target sentence.
    """

    pairs: float | None
    source_mean: float
    target_mean: float

    def epochs(self, cost):
        """Returns how often a TrainingCost's updates go through the pairs."""
        of_update = cost.target_tokens / self.target_mean
        return cost.config.train_steps * of_update / self.pairs

    def bytes_on_disk(self, vocabulary_size):
        """Returns the size of the prepared data."""
        width = 2 if vocabulary_size <= _MOST_UINT16 else 4
        ids = width * (self.source_mean + self.target_mean)
        return self.pairs * (ids + _LENGTHS_BYTES)

    @property
    def core_hours(self):
        """Hours in which one core prepares it, at the rate measured here."""
        return self.pairs / PREPARED_PAIRS / 3600
