"""Keras models on TensorFlow, trained as by `model.fit`."""

import keras
import tensorflow as tf

from benchmarks.training_job import pack
from trainers.training.strategies import has_gpu, make_strategy
from trainers.training.training_model import TrainingTransformer


class KerasFit:
    """Calls the train function of `model.fit`, one batch at a time.

    `batches` are (inputs, labels), a dict of int32 [B, L] and int32 [B, L].
    """

    framework = "tensorflow"

    def __init__(self, model, batches):
        model.make_train_function()
        self.parameters = model.count_params()
        self.note = (
            f"Keras {keras.__version__}, TensorFlow {tf.__version__}, fit"
        )
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
        # Cached as tensors, so that only the step is timed.
        return iter(
            strategy.experimental_distribute_dataset(
                dataset.cache().repeat().prefetch(2)
            )
        )

    def run(self, number):
        logs = self._model.train_function(self._iterators[number])
        return float(logs["loss"])


def ours(job, packed=False, jit=False):
    """Returns TrainingTransformer under `model.fit`, as in trainers.wmt.

    With packed rows, the trainer's default, or one pair per row.
    """
    keras.utils.set_random_seed(1)
    jit = jit or has_gpu()
    with make_strategy("one").scope():
        model = TrainingTransformer(
            job.config, compile_gradient=jit, dtype=job.precision
        )
        model.compile_for_training()
    batches = [pack(each) if packed else each.pad_ids for each in job.batches]
    peer = KerasFit(model, batches)
    peer.note += ", XLA" if jit else ", no XLA"
    return peer
