"""This project's Translator on TensorFlow, as the commands use it."""

import keras
import tensorflow as tf

from export.model_directory import ModelDirectory
from export.translators.batches import AT_ONCE, side_by_side
from export.translators.translator import Translator

# So that each call is one batch.
_NO_LIMIT = 1 << 30


class Ours:
    """Translator.

    Args:
        job: DecodeJob.
        stop: when a sentence stops; of SearchRules.
        ask: function of a Translator and texts: a list of Translation.
    """

    framework = "tensorflow"
    _name = "export.Translator"

    def __init__(self, job, stop, ask=Translator.translate):
        directory = ModelDirectory(job.prepared)
        self._ask = ask
        self._translator = self._opened(
            directory.load_model(_policy(job)),
            directory.load_tokenizer(),
            stop=stop,
        )
        self.note = (
            f"{self._name}, Keras "
            f"{keras.__version__}, TensorFlow {tf.__version__}, "
            f"{job.precision}; a sentence stops when its result is {stop}"
        )

    def _opened(self, model, tokenizer, **search):
        return Translator(model, tokenizer, batch_tokens=_NO_LIMIT, **search)

    def translate(self, batch):
        """Returns text and score of each sentence."""
        return [
            (found.text, found.score)
            for found in self._ask(self._translator, batch.texts)
        ]


class OursCompiled(Ours):
    """A compiled Translator: one by one, two of a batch at once.

    Args:
        job: DecodeJob.
        stop: when a sentence stops; of SearchRules.
    """

    _name = "export.Translator, compiled"

    def _opened(self, model, tokenizer, **search):
        return Translator(model, tokenizer, compiled=True, **search)


class OursSideBySide(Ours):
    """Several batches at once, as commands translate long text.

    Args:
        job: DecodeJob.
        stop: when a sentence stops; of SearchRules.
    """

    def __init__(self, job, stop):
        super().__init__(job, stop)
        self.note += f"; {AT_ONCE} batches at once"

    def translate_all(self, batches):
        """Returns text and score of each sentence of each batch."""
        return list(side_by_side(self.translate, batches))


def _policy(job):
    return {"bfloat16": "mixed_bfloat16"}.get(job.precision, job.precision)


def certain(job):
    """As commands translate: the result is the whole search's."""
    return Ours(job, "certain")


def finished(job):
    """Stopping as CTranslate2 does: with the K-th finished hypothesis."""
    return Ours(job, "finished")


def certain_side_by_side(job):
    """As `certain`, and two batches at once."""
    return OursSideBySide(job, "certain")


def finished_side_by_side(job):
    """As `finished`, and two batches at once."""
    return OursSideBySide(job, "finished")


def certain_compiled(job):
    """As `certain`, compiled."""
    return OursCompiled(job, "certain")


def finished_compiled(job):
    """As `finished`, compiled."""
    return OursCompiled(job, "finished")


def aligned(job):
    """As `certain`, and which word comes from which."""
    return Ours(job, "certain", Translator.align)


def n_best(job):
    """As `certain`, for all translations of a beam and not the best alone."""
    return Ours(job, "certain", _best_of_all)


def _best_of_all(translator, texts):
    found = translator.n_best(texts, translator.beam_size)
    return [translations[0] for translations in found]
