"""This project's model and trainer on TensorFlow, as `trainers.wmt` runs."""

import keras

from benchmarks.peers import keras_fit
from benchmarks.training_step.work import pack
from trainers.training.strategies import has_gpu, make_strategy
from trainers.training.training_model import TrainingTransformer


class OursFit(keras_fit.KerasFit):
    """TrainingTransformer under `model.fit`.

    Args:
        job: Job.
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
        self.parameters = model.count_params()
        xla = "XLA" if compile_gradient else "no XLA"
        self.note = (
            f"Keras {keras.__version__}, {keras_fit.versions()}, fit, {xla}"
        )
        self.peak_gpu_bytes = keras_fit.peak_gpu_bytes


def default(job):
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
