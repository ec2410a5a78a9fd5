"""Runs compiled Keras models on TensorFlow as `model.fit` does."""

import tensorflow as tf


class KerasFit:
    """Calls the function that `model.fit` calls, one batch at a time.

    Args:
        model: a compiled keras.Model.
        batches: list of (inputs, labels), dicts of int32 arrays [B, L] by
            the names of the model's inputs, and int32 [B, L].
    """

    def __init__(self, model, batches):
        model.make_train_function()
        self._model = model
        self._iterators = [self._iterator(batch) for batch in batches]

    def _iterator(self, batch):
        inputs, _ = batch
        ids = tf.TensorSpec([None, None], tf.int32)
        dataset = tf.data.Dataset.from_generator(
            lambda: iter([batch]),
            output_signature=(dict.fromkeys(inputs, ids), ids),
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
