"""This project's model and trainer on TensorFlow, as `trainers.wmt` runs."""

import keras

from benchmarks.peers import keras_fit
from trainers.strategies import has_gpu, make_strategy
from trainers.training_model import TrainingTransformer


class OursFit(keras_fit.KerasFit):
    """TrainingTransformer under `model.fit`.

    Args:
        job: Job.
        compile_gradient: as of TrainingTransformer.
    """

    def __init__(self, job, compile_gradient):
        keras.utils.set_random_seed(1)
        with make_strategy("one").scope():
            model = TrainingTransformer(
                job.config,
                compile_gradient=compile_gradient,
                dtype=job.precision,
            )
            model.compile_for_training()
        super().__init__(model, job.batches)
        self.parameters = model.count_params()
        xla = "XLA" if compile_gradient else "no XLA"
        self.note = (
            f"Keras {keras.__version__}, {keras_fit.versions()}, fit, {xla}"
        )
        self.peak_gpu_bytes = keras_fit.peak_gpu_bytes


def default(job):
    """As the trainer runs by default: XLA on GPUs only."""
    return OursFit(job, compile_gradient=has_gpu())


def compiled(job):
    """As `--jit` trains."""
    return OursFit(job, compile_gradient=True)
