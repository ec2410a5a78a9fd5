"""What training wrote of attention, for TensorBoard."""

from tensorboard.backend.event_processing import event_accumulator


def steps(folder) -> list[int]:
    """The steps at which translations were written."""
    accumulator = event_accumulator.EventAccumulator(str(folder)).Reload()
    return [event.step for event in accumulator.Tensors("translations")]
