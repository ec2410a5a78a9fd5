"""The search as graphs: one for every shape, or compiled for a few of them."""

import functools
import os
import threading

import tensorflow as tf

from export.common.errors import InputError
from export.translators.text_ids import padded

IDS_SPEC = tf.TensorSpec([None, None], tf.int32)

# Sources are padded to the next of its doubles, or to their limit.
_SHORTEST = 16
# There is capacity for all pieces from the start.
_MOST_EXTRA = 1000
_XLA_FLAG = "--xla_cpu_experimental_ynn_fusion_type"


def one_graph(function, *signature, **options):
    """Returns a function that is traced at its first call and never again.

    Args:
        function: of tensors.
        *signature: tf.TensorSpec of each, or tuples of them.
        **options: of tf.function.

    Returns:
        A function of as many tensors or arrays, which threads may share.
    """
    graph = tf.function(
        function, input_signature=signature, autograph=False, **options
    )
    # A thread that waits for another's tracing is taken by tf.function for
    # one that traced as well, and a few of these for tracing without end.
    traced = functools.cache(graph.get_concrete_function)
    return lambda *arguments: traced()(*arguments)


class OpenGraphs:
    """Searches of any number of sentences of any length: for batches.

    XLA would compile each padded length, some ten seconds apiece.

    Args:
        ids: IdTranslator.
    """

    def __init__(self, ids):
        self._ids = ids
        self._graphs = {}
        self._lock = threading.Lock()

    def search(self, source, prefix=None, n_best=1, align=False):
        """Searches; see `IdTranslator.search`.

        Args:
            source: int32 array [B, S].
            prefix: int32 array [B, P], or None.
            n_best: as there.
            align: as there.

        Returns:
            As there.
        """
        inputs = [source] if prefix is None else [source, prefix]
        kind = n_best, align, len(inputs)
        with self._lock:
            if kind not in self._graphs:
                self._graphs[kind] = one_graph(
                    lambda *inputs: self._ids.search(
                        *inputs, n_best=n_best, align=align
                    ),
                    *[IDS_SPEC] * len(inputs),
                )
        return self._graphs[kind](*inputs)


class CompiledGraphs:
    """Searches of one sentence at a time, compiled: the fastest for one.

    Each sentence is padded to one of a few lengths, and each length is
    compiled at its first sentence, which takes some seconds. The model's
    weights must stay as they are.

    Args:
        ids: IdTranslator.
        source_limit: the most ids of a source.
        target_limit: the most ids of a prefix.

    Raises:
        InputError: translations may have more than 1,000 pieces more than
            their sources.
    """

    def __init__(self, ids, source_limit, target_limit):
        multiply_by_eigen()
        extra = ids.config.max_output_extra
        if extra > _MOST_EXTRA:
            raise InputError(
                f"max_output_extra={extra} is more than a compiled search has "
                f"capacity for, {_MOST_EXTRA}: give less, or translate "
                "uncompiled."
            )
        self._ids = ids
        self._limits = source_limit, target_limit
        self._decoder = ids.new_decoder()
        self._graphs = {}
        self._lock = threading.Lock()

    def search(self, source, prefix=None, n_best=1, align=False):
        """Searches, as `OpenGraphs.search`."""
        inputs = [source] if prefix is None else [source, prefix]
        inputs = [
            padded(each, _width(each.shape[1], limit))
            for each, limit in zip(inputs, self._limits)
        ]
        shapes = [each.shape for each in inputs]
        kind = n_best, align, *shapes
        with self._lock:
            if kind not in self._graphs:
                graph = one_graph(
                    lambda *inputs: self._ids.search(
                        *inputs,
                        n_best=n_best,
                        align=align,
                        decoder=self._decoder,
                    ),
                    *[tf.TensorSpec(shape, tf.int32) for shape in shapes],
                    jit_compile=True,
                )
                # XLA compiles at the first call.
                found = graph(*inputs)
                self._graphs[kind] = graph
                return found
        return self._graphs[kind](*inputs)


def _width(length, limit):
    """The least of 16, 32, 64, ... and the limit that is long enough."""
    width = _SHORTEST
    while width < length:
        width *= 2
    return min(width, limit)


def multiply_by_eigen():
    """Has XLA leave products to Eigen, and not to YNNPACK.

    Of 4 rows, a beam's, YNNPACK's take half as long again
    (docs/measured/decoding.md). XLA reads its flags once, when it first
    compiles; what somebody chose in XLA_FLAGS stays.
    """
    # A version that does not know the flag ends the process.
    if not tf.__version__.startswith("2.21."):
        return
    flags = os.environ.get("XLA_FLAGS", "")
    if _XLA_FLAG not in flags:
        chosen = f"{flags} {_XLA_FLAG}=LIBRARY_FUSION_TYPE_INVALID"
        os.environ["XLA_FLAGS"] = chosen.strip()
