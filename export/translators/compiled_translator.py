"""Translates one sentence at a time, compiled."""

import os
import threading

import tensorflow as tf

from export.command import InputError
from export.translators.id_translator import one_graph
from export.translators.text_ids import padded
from export.translators.translator import Translator

_FLAG = "--xla_cpu_experimental_ynn_fusion_type"


def multiply_by_eigen():
    """Has XLA leave products to Eigen, and not to YNNPACK.

    Of 4 rows, a beam's, YNNPACK's take half as long again (docs/decode.md).
    XLA reads its flags once, when it first compiles; what somebody chose in
    XLA_FLAGS stays.
    """
    # A version that does not know the flag ends the process.
    if not tf.__version__.startswith("2.21."):
        return
    flags = os.environ.get("XLA_FLAGS", "")
    if _FLAG not in flags:
        chosen = f"{flags} {_FLAG}=LIBRARY_FUSION_TYPE_INVALID"
        os.environ["XLA_FLAGS"] = chosen.strip()


# Sources are padded to the next of its doubles, or to their limit.
_SHORTEST = 16

# There is room for all pieces from the start.
_MOST_EXTRA = 1000


class CompiledTranslator(Translator):
    """A Translator whose search XLA compiles: the soonest for one sentence.

    For a process that lives long and gets its sentences one by one. Each is
    searched for alone, padded to one of a few lengths, and each length is
    compiled at its first sentence, which takes some seconds. The translations
    are Translator's. Many sentences together go sooner through Translator;
    samples and scores of given translations are Translator's own.
    The model's weights must stay as they are.

    Args:
        model: Transformer or Ensemble.
        tokenizer: Tokenizer of its vocabulary.
        **settings: of Translator, but for `batch_tokens`.

    Raises:
        ValueError: a number is out of range.
        InputError: translations may have more than 1,000 pieces more than
            their sources.
    """

    def __init__(self, model, tokenizer, **settings):
        multiply_by_eigen()
        super().__init__(model, tokenizer, batch_tokens=1, **settings)
        extra = self._config.max_output_extra
        if extra > _MOST_EXTRA:
            raise InputError(
                f"max_extra={extra} is more than a compiled search makes room "
                f"for, {_MOST_EXTRA}: give less, or translate uncompiled."
            )
        self._decoder = self._ids.decoder()
        self._compiled = {}
        self._compiles = threading.Lock()

    def _search_ids(self, source, n):
        ids = self._ids
        search = ids.compilable_best if n == 1 else ids.compilable_search
        return self._run(search, source)

    def _align_ids(self, source):
        return self._run(self._ids.compilable_align, source)

    def _run(self, function, source):
        """Calls a function of a source and the decoder, compiled."""
        width = _width(source.shape[1], self._source_limit())
        source = padded(source, width)
        kind = function, width
        with self._compiles:
            if kind not in self._compiled:
                compiled = one_graph(
                    lambda source: function(source, self._decoder),
                    tf.TensorSpec([1, width], tf.int32),
                    jit_compile=True,
                )
                # XLA compiles at the first call.
                found = compiled(source)
                self._compiled[kind] = compiled
                return found
        return self._compiled[kind](source)


def _width(length, limit):
    """The least of 16, 32, 64, ... and the limit that has room."""
    width = _SHORTEST
    while width < length:
        width *= 2
    return min(width, limit)
