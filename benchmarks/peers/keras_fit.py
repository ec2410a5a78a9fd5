"""Runs compiled Keras models on TensorFlow as `model.fit` does."""

import tensorflow as tf


class KerasFit:
    """Calls the function that `model.fit` calls, one batch at a time.

    Args:
        model: a compiled keras.Model that takes {"source", "target"}.
        batches: list of StepBatch, asked for in this order, round and round.
    """

    def __init__(self, model, batches):
        model.make_train_function()
        self._model = model
        self._iterators = [self._iterator(batch) for batch in batches]

    def _iterator(self, batch):
        ids = tf.TensorSpec([None, None], tf.int32)
        element = (
            {"source": batch.source, "target": batch.target},
            batch.labels,
        )
        dataset = tf.data.Dataset.from_generator(
            lambda: iter([element]),
            output_signature=({"source": ids, "target": ids}, ids),
        )
        strategy = self._model.distribute_strategy
        # Kept as tensors, so that only the step is timed and no input.
        return iter(
            strategy.experimental_distribute_dataset(
                dataset.cache().repeat().prefetch(2)
            )
        )

    def run(self, shape):
        """Makes one update with a batch, waits for it, returns the loss."""
        logs = self._model.train_function(self._iterators[shape])
        return float(logs["loss"])


def versions():
    """Returns what ran, in words."""
    return f"TensorFlow {tf.__version__}"


def peak_gpu_bytes():
    """Returns the most memory that tensors took on the GPU."""
    return tf.config.experimental.get_memory_info("GPU:0")["peak"]
