"""Runs a model for a Translator whose texts are split in Python.

On JAX, and on TensorFlow without tensorflow-text.
"""

import typing
from collections.abc import Callable, Sequence

import keras
import numpy as np

import keras_transformer as kt
from export.common.errors import InputError
from export.common.packages import install_command
from export.translators.batches import (
    BATCH_TOKENS,
    MIN_PADDED_LENGTH,
    next_power,
    pad_ids,
)
from export.translators.model_backend import (
    ModelBackend,
    model_for_tokenizer,
)
from export.translators.translation import (
    Sentence,
    Translation,
    drop_impossible,
)
from keras_transformer.config import END_ID
from keras_transformer.decoding.translate import output_limits
from keras_transformer.types import TransformerLike

if typing.TYPE_CHECKING:
    from export.translators.languages import Tokenizers


class IdsBackend(ModelBackend):
    """Translates on one device, by a compiled function from ids to ids.

    XLA compiles the search for each padded shape: lengths and numbers of
    sentences are powers of 2.

    Args:
        model: Transformer or Ensemble.
        tokenizer: of its vocabulary, from `ModelDirectory.load_tokenizer`.
        batch_tokens: source tokens in a batch, padding included.
        max_source_tokens: maximum number of ids of a source, the end id
            included; 512 by default.
        min_length: minimum number of tokens of a translation.
        **search: see `TransformerConfig.with_search`.
    """

    has_alignments = False
    # XLA uses all processors for one batch.
    num_threads = 1

    def __init__(
        self,
        model: TransformerLike,
        tokenizer: "Tokenizers",
        batch_tokens: int = BATCH_TOKENS,
        max_source_tokens: int | None = None,
        min_length: int = 1,
        **search: typing.Any,
    ):
        config = model.config.with_search(**search)
        super().__init__(tokenizer, config, max_source_tokens)
        self.model = model = model_for_tokenizer(model, tokenizer)
        self.batch_tokens = batch_tokens
        self._search_config = kt.BeamSearchConfig.from_config(
            config,
            num_given_tokens=self.model.num_given_tokens,
            min_length=min_length,
        )
        self._translate = compile_for_model(model, self._translate_ids)

    def _search_best(self, sentences):
        return self._search_ids(sentences)[0][:, 0]

    def search(
        self, sentences: Sequence[Sentence], n: int, align: bool
    ) -> list[list[Translation]]:
        """See the base class."""
        if align:
            raise InputError(
                "Word alignments need TensorFlow and tensorflow-text; run "
                f"{install_command('tensorflow_text')}, and start the command "
                "with KERAS_BACKEND=tensorflow."
            )
        tokens, scores = self._search_ids(sentences)
        tokens, scores = tokens[:, :n], scores[:, :n]
        rows = [*map(self.tokenizer.target.decode, tokens)]
        return [*map(drop_impossible, rows, scores.tolist())]

    def _search_ids(self, sentences):
        """Returns tokens, int32 [B, K, T], and scores, float32 [B, K]."""
        rows = [sentence.ids for sentence in sentences]
        source = pad_to_powers(rows, self.source_limit)
        missing = len(source) - len(sentences)
        prefixes = [sentence.prefix for sentence in sentences] + missing * [()]
        longest = max(map(len, prefixes))
        prefix = ()
        if longest:
            prefix = pad_ids(prefixes, next_power(longest, MIN_PADDED_LENGTH))
        results = self._translate(source, prefix)
        return [np.asarray(each)[: len(sentences)] for each in results]

    def _translate_ids(self, source, prefix):
        limits = output_limits(source, self._config.max_extra_tokens)
        result = kt.translate_ids(
            self.model,
            source,
            constraints=kt.Constraints(limits, prefix=prefix),
            config=self._search_config,
        )
        return result.tokens, result.scores


def compile_for_model(
    model: TransformerLike, function: Callable[..., typing.Any]
) -> Callable[..., typing.Any]:
    """Compiles a function of ids with the current weights of a model.

    It runs on one device, also if several have copies of the weights. The model
    is a Transformer or an Ensemble.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function, autograph=False, reduce_retracing=True)
    import jax

    @jax.jit
    def run(weights, *arrays):
        with keras.StatelessScope([*zip(model.weights, weights)]):
            return function(*arrays)

    def call(*arrays):
        weights = [each.value.addressable_data(0) for each in model.weights]
        return run(weights, *arrays)

    return call


def pad_to_powers(
    rows: Sequence[Sequence[int] | np.ndarray], limit: int
) -> np.ndarray:
    """Pads rows of ids to int32 [B, S]: few shapes, each compiled once.

    B and S are powers of 2, or S is `limit`; the rows that are added are blank.
    """
    width = min(next_power(max(map(len, rows)), MIN_PADDED_LENGTH), limit)
    missing = next_power(len(rows)) - len(rows)
    return pad_ids([*rows, *missing * [[END_ID]]], width)
