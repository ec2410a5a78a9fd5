"""Keras models on TensorFlow, as `model.fit` trains them: ours, and others'."""

import keras
import tensorflow as tf

from benchmarks.training_step.work import pack
from trainers.training.strategies import has_gpu, make_strategy
from trainers.training.training_model import TrainingTransformer


class KerasFit:
    """Calls the function that `model.fit` calls, one batch at a time.

    Args:
        model: a compiled keras.Model.
        batches: list of (inputs, labels), dicts of int32 arrays [B, L] by
            the names of the model's inputs, and int32 [B, L].
    """

    framework = "tensorflow"

    def __init__(self, model, batches):
        model.make_train_function()
        self.parameters = model.count_params()
        self.note = f"TensorFlow {tf.__version__}, fit"
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


class OursFit(KerasFit):
    """TrainingTransformer under `model.fit`, as `trainers.wmt` runs it.

    Args:
        job: StepJob.
        batches: as of KerasFit.
        compile_gradient: as of TrainingTransformer.
    """

    def __init__(self, job, batches, compile_gradient):
        keras.utils.set_random_seed(1)
        with make_strategy("one").scope():
            model = TrainingTransformer(
                job.config,
                compile_gradient=compile_gradient,
                dtype=job.precision,
            )
            model.compile_for_training()
        super().__init__(model, batches)
        xla = "XLA" if compile_gradient else "no XLA"
        self.note = f"Keras {keras.__version__}, {self.note}, {xla}"


def padded(job):
    """One pair a row, and XLA on GPUs only, as the trainer's default."""
    return OursFit(job, _padded(job), compile_gradient=has_gpu())


def compiled(job):
    """One pair a row, as `--jit` trains."""
    return OursFit(job, _padded(job), compile_gradient=True)


def packed(job):
    """The same pairs in packed rows: as the trainer runs by default."""
    batches = [pack(batch) for batch in job.batches]
    return OursFit(job, batches, compile_gradient=has_gpu())


def _padded(job):
    return [batch.padded for batch in job.batches]
