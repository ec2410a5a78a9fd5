"""Runs a Keras model on TensorFlow for a Translator."""

import threading
import typing
from collections.abc import Callable, Sequence

import tensorflow as tf

import keras_transformer as kt
from export.common.errors import InputError
from export.terms.terms import Term, Terms, request_inputs
from export.translators.batches import (
    BATCH_TOKENS,
    MIN_PADDED_LENGTH,
    NUM_THREADS,
    next_power,
    pad_ids,
)
from export.translators.graph_translator import (
    IDS_SPEC,
    disable_ynnpack,
    trace_once,
)
from export.translators.model_backend import MAX_SOURCE_TOKENS, ModelBackend
from export.translators.term_ops import find_sentence_terms, validate_targets
from export.translators.text_graph import TextGraph
from export.translators.translation import (
    Sentence,
    Translation,
    read_translations,
)
from keras_transformer.types import TransformerLike

if typing.TYPE_CHECKING:
    from export.tokenizers.pretrained_tokenizers import TokenizerPair
    from export.tokenizers.tokenizer import Tokenizer

_SPECS = {
    "source": IDS_SPEC,
    "prefix": IDS_SPEC,
    "text": tf.TensorSpec([None], tf.string),
    "source_terms": tf.TensorSpec([None, None], tf.string),
    "target_terms": tf.TensorSpec([None, None], tf.string),
}


class GraphBackend(ModelBackend):
    """Runs the functions of a TextGraph in this process.

    Args:
        model: Transformer or Ensemble.
        tokenizer: Tokenizer of its vocabulary, or TokenizerPair.
        batch_tokens: see Backend.
        max_source_tokens: see ModelBackend.
        compiled: whether XLA compiles the search, for the lowest latency of
            single sentences in a long-running process; the weights must not
            change then.
        num_threads: see Backend; give 1 thread if other processes use the
            other CPUs.
        **search: arguments of GraphTranslator.

    The attribute `target_pieces` has the ids of the tokens that translations
    may contain, None for all. Raises ValueError if a number is out of range.
    """

    def __init__(
        self,
        model: TransformerLike,
        tokenizer: "Tokenizer | TokenizerPair",
        batch_tokens: int = BATCH_TOKENS,
        max_source_tokens: int | None = None,
        compiled: bool = False,
        num_threads: int = NUM_THREADS,
        **search: typing.Any,
    ):
        self._text_graph = TextGraph(
            model, tokenizer, max_source_tokens or MAX_SOURCE_TOKENS, **search
        )
        self._graph_translator = translator = self._text_graph.translator
        super().__init__(tokenizer, translator.config, max_source_tokens)
        self.model = translator.model
        self.target_pieces = translator.target_pieces
        # With a limit of 1 token every batch has one sentence.
        self.batch_tokens = 1 if compiled else batch_tokens
        self.num_threads, self.compiled = num_threads, compiled
        self._decoder = None
        if compiled:
            disable_ynnpack()
            self._decoder = translator.new_decoder()
        self._graphs: dict[tuple, Callable[..., typing.Any]] = {}
        self._lock = threading.Lock()
        # The Terms that were validated.
        self._terms: Terms | None = None

    def search(
        self, sentences: Sequence[Sentence], n: int, align: bool
    ) -> list[list[Translation]]:
        """See the base class."""
        inputs: dict[str, typing.Any]
        inputs = {"source": pad_ids([each.ids for each in sentences])}
        if align:
            inputs["text"] = tf.constant([each.text for each in sentences])
        if any(len(sentence.prefix) for sentence in sentences):
            inputs["prefix"] = pad_ids([each.prefix for each in sentences])
        if any(sentence.terms for sentence in sentences):
            inputs |= request_inputs([each.terms for each in sentences])
        return read_translations(self._run(n, inputs), n)

    def score(
        self, sources: Sequence[Sentence], targets: Sequence[Sentence]
    ) -> list[float]:
        """See the base class."""
        scores = self._graph("score", self._text_graph.score, 2 * [IDS_SPEC])(
            pad_ids([source.ids for source in sources]),
            pad_ids([target.ids for target in targets]),
        )
        return scores.numpy().tolist()

    def sample(
        self, sentences: Sequence[Sentence], config: kt.SamplingConfig | None
    ) -> list[list[Translation]]:
        """See the base class."""
        config = config or kt.SamplingConfig()
        sample = self._graph(
            config,
            lambda *inputs: self._text_graph.sample(*inputs, config),  # type: ignore[call-arg]
            [IDS_SPEC, tf.TensorSpec([None], tf.int32)],
        )
        outputs = sample(
            pad_ids([sentence.ids for sentence in sentences]),
            tf.constant([sentence.seed for sentence in sentences], tf.int32),
        )
        outputs = {name: each.numpy() for name, each in outputs.items()}
        return read_translations(outputs, outputs["scores"].shape[1])

    def validate_terms(self, terms: Terms) -> None:
        """See the base class."""
        if terms is self._terms:
            return
        if self.compiled:
            raise InputError(
                "XLA does not compile searches with terms: omit --compiled, or "
                "--terms and --keep."
            )
        if self._text_graph.word_edges is None:
            raise InputError(
                "Terms need a vocabulary whose tokens begin with spaces; that "
                "of this model has spaces at their ends."
            )
        validate_targets(self.tokenizer.target, terms)
        self._terms = terms

    def find_terms(
        self, terms: Terms, sentences: Sequence[Sentence]
    ) -> list[list[Term]]:
        """See the base class."""
        return find_sentence_terms(self.tokenizer, terms, sentences)

    def _search_best(self, sentences):
        search = self._graph(
            "ids",
            lambda source: self._graph_translator.search(source).tokens[:, 0],
            [IDS_SPEC],
        )
        return search(pad_ids([each.ids for each in sentences])).numpy()

    def _run(self, n, inputs):
        """Returns the outputs of `_translate`, a dict of arrays."""
        if self.compiled:
            limits = {"source": self.source_limit, "prefix": self.target_limit}
            for name in limits.keys() & inputs.keys():
                length = inputs[name].shape[1]
                inputs[name] = pad_ids(
                    inputs[name], _padded_length(length, limits[name])
                )
        names, arrays = zip(*inputs.items())
        specs = [
            tf.TensorSpec(each.shape, tf.int32)
            if self.compiled and name in ("source", "prefix")
            else _SPECS[name]
            for name, each in inputs.items()
        ]
        # With terms the number of translations decides when a search stops.
        num_needed = n if "source_terms" in inputs else 0
        graph = self._graph(
            (num_needed, *names, *specs),
            lambda n, *arrays: self._translate(
                n, num_needed, **dict(zip(names, arrays))
            ),
            [tf.TensorSpec([], tf.int32), *specs],
        )
        outputs = graph(tf.constant(n), *arrays)
        return {name: each.numpy() for name, each in outputs.items()}

    def _translate(
        self,
        n,
        num_needed,
        source,
        text=None,
        prefix=(),
        source_terms=None,
        target_terms=None,
    ):
        graph, options = self._text_graph, {"prefix": prefix}
        if source_terms is not None:
            terms, _ = graph.constrain(source_terms, target_terms, num_needed)
            options |= terms
        if self.compiled:
            options["search"] = tf.function(
                lambda *inputs, **options: self._graph_translator.search(
                    *inputs, decoder=self._decoder, **options
                ),
                autograph=False,
                jit_compile=True,
            )
        if text is not None:
            return graph.align(source, text, **options)
        return graph.n_best(source, n, **options)

    def _graph(self, key, function, specs):
        """Returns the graph of a function, traced once for each key."""
        sides = self.tokenizer.source, self.tokenizer.target
        with self._lock:
            key = (key, *(each.restore_resources() for each in sides))
            if key not in self._graphs:
                self._graphs[key] = trace_once(function, *specs)
        return self._graphs[key]


def _padded_length(length, limit):
    return min(next_power(length, MIN_PADDED_LENGTH), limit)
