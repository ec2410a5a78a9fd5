"""What a worker is told to do."""

import dataclasses

import keras_transformer as kt
from benchmarks.training_step.batches import StepBatch, load_batches

DROPOUT = 0.1
SMOOTHING = 0.1


@dataclasses.dataclass(frozen=True)
class Job:
    """The model, the work and the machine, the same for every system.

    Attributes:
        config: of the model and of training.
        precision: "float32", or "mixed_bfloat16" for bfloat16 activations
            and products over float32 weights.
        device: "cpu" or "gpu".
        batches: list of StepBatch.
        cores: threads to use on a CPU.
    """

    config: kt.TransformerConfig
    precision: str
    device: str
    batches: list[StepBatch]
    cores: int

    def settings(self, batches):
        """Returns all but the batches for JSON, and where those lie."""
        return {
            "config": self.config.to_json(),
            "precision": self.precision,
            "device": self.device,
            "batches": str(batches),
            "cores": self.cores,
        }

    @classmethod
    def from_settings(cls, settings):
        """Makes the job from what `settings` returned."""
        return cls(
            **settings
            | {
                "config": kt.TransformerConfig.from_json(settings["config"]),
                "batches": load_batches(settings["batches"]),
            }
        )


def make_config(size):
    """Returns the preset of a size with the dropout that all systems use."""
    return kt.TransformerConfig.preset(
        size, dropout=DROPOUT, label_smoothing=SMOOTHING
    )
