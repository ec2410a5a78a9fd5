"""What a worker of the decoding benchmark is told to do."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class DecodeBatch:
    """Sentences that are translated together.

    Attributes:
        texts: list of str.
        source_lengths: of each in pieces, the end id counted.
        target_lengths: the same of their translations; empty as long as
            nobody has translated them.
    """

    texts: list[str]
    source_lengths: list[int]
    target_lengths: list[int]


@dataclasses.dataclass(frozen=True)
class DecodeJob:
    """The model, the sentences and the machine, the same for every system.

    It imports no framework: one of the workers must not.

    Attributes:
        model: model directory whose configuration has this job's beam.
        prepared: what the system's `prepare` made of it.
        config: fields of the configuration.
        precision: "float32" or "bfloat16".
        device: "cpu" or "gpu".
        cores: threads to use on a CPU.
        sentences: list of str, from short to long.
        source_lengths: of each in pieces, the end id counted.
        target_lengths: the same of their translations, or empty.
    """

    model: str
    prepared: str
    config: dict
    precision: str
    device: str
    cores: int
    sentences: list[str]
    source_lengths: list[int]
    target_lengths: list[int] = dataclasses.field(default_factory=list)

    def batches(self, size):
        """Returns the sentences in DecodeBatches of `size`, in order."""
        return [
            DecodeBatch(
                self.sentences[start : start + size],
                self.source_lengths[start : start + size],
                self.target_lengths[start : start + size],
            )
            for start in range(0, len(self.sentences), size)
        ]

    def settings(self):
        """Returns all of it for JSON."""
        return dataclasses.asdict(self)
