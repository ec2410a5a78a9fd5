"""This project's Translator on TensorFlow, as used by the commands."""

import keras
import tensorflow as tf

from export.model_directory import ModelDirectory
from export.translators import output_vocabulary_files
from export.translators.batches import NUM_THREADS, parallel_map
from export.translators.translator import Translator

# Each call must be one batch.
_NO_LIMIT = 1 << 30


class Ours:
    """Translator, through a method that takes a list of texts.

    With `parallel_batches`, it translates several batches concurrently.
    """

    framework = "tensorflow"

    def __init__(
        self, job, compiled=False, parallel_batches=False, method="translate"
    ):
        directory = ModelDirectory(job.model)
        tokenizer = directory.load_tokenizer()
        search = output_vocabulary_files.load_output_vocabulary(
            job.search, tokenizer, directory.read_config()
        )
        policy = "mixed_bfloat16" if job.precision == "bfloat16" else None
        self._translator = Translator.from_model(
            directory.load_model(policy or job.precision),
            tokenizer,
            batch_tokens=_NO_LIMIT,
            compiled=compiled,
            **search,
        )
        self._method = method
        self.note = (
            f"export.Translator{', compiled' * compiled}, Keras "
            f"{keras.__version__}, TensorFlow {tf.__version__}, "
            f"{job.precision}; {' '.join(job.flags)}"
        )
        if parallel_batches:
            self.note += f"; {NUM_THREADS} batches in parallel"
            self.translate_all = self._translate_all

    def translate(self, batch):
        if self._method == "n_best":
            beam_size = self._translator.beam_size
            found = self._translator.n_best(batch.texts, beam_size)
            found = [translations[0] for translations in found]
        else:
            found = getattr(self._translator, self._method)(batch.texts)
        return [(each.text, each.score) for each in found]

    def _translate_all(self, batches):
        return list(parallel_map(self.translate, batches))
