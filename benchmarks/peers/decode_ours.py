"""This project's Translator on TensorFlow, as the commands use it."""

import keras
import tensorflow as tf

from export.model_directory import ModelDirectory
from export.translator import Translator

# So that each call is one batch.
_NO_LIMIT = 1 << 30


class Ours:
    """Translator.

    Args:
        job: DecodeJob.
        stop: when a sentence stops; of SearchRules.
    """

    def __init__(self, job, stop):
        directory = ModelDirectory(job.prepared)
        self._translator = Translator(
            directory.load_model(_policy(job)),
            directory.load_tokenizer(),
            batch_tokens=_NO_LIMIT,
            stop=stop,
        )
        self.note = (
            f"export.Translator, Keras {keras.__version__}, TensorFlow "
            f"{tf.__version__}, {job.precision}; a sentence stops when its "
            f"result is {stop}"
        )

    def translate(self, batch):
        """Returns text and score of each sentence."""
        return [
            (found.text, found.score)
            for found in self._translator.translate(batch.texts)
        ]

    def peak_gpu_bytes(self):
        """Returns the most memory that tensors took on the GPU."""
        return tf.config.experimental.get_memory_info("GPU:0")["peak"]


def _policy(job):
    return {"bfloat16": "mixed_bfloat16"}.get(job.precision, job.precision)


def make(job):
    """As commands translate: the result is the whole search's."""
    return Ours(job, "certain")


def make_finished(job):
    """Stopping as CTranslate2 does: with the K-th finished hypothesis."""
    return Ours(job, "finished")
