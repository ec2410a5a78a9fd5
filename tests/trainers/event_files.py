"""What training wrote for TensorBoard, as its own loader reads it."""

import tensorflow as tf
from tensorboard.backend.event_processing import (
    plugin_event_accumulator as event_accumulator,
)


def _events(folder):
    """{tag: its events}."""
    accumulator = event_accumulator.EventAccumulator(
        str(folder), {event_accumulator.TENSORS: 0}
    ).Reload()
    return {
        tag: accumulator.Tensors(tag) for tag in accumulator.Tags()["tensors"]
    }


def scalars(folder) -> dict[str, list[tuple[int, float]]]:
    """{tag: [(step, value)]}, of a folder that has nothing but scalars."""
    return {
        tag: [
            (event.step, float(tf.make_ndarray(event.tensor_proto)))
            for event in events
        ]
        for tag, events in _events(folder).items()
    }


def translation_steps(folder) -> list[int]:
    """The steps at which translations were written beside attention."""
    return [event.step for event in _events(folder)["translations"]]
