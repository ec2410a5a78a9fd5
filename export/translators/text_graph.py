"""Text to translations inside a TensorFlow graph."""

import functools
import typing
from collections.abc import Callable

import tensorflow as tf

# Needed by the tokenizers, and named if it is missing.
import tensorflow_text  # noqa: F401

import keras_transformer as kt
from export.translators.batches import character_limit, length_limits
from export.translators.graph_translator import GraphTranslator, SearchOutput
from export.translators.model_backend import model_for_tokenizer
from export.translators.term_ops import (
    find_copies,
    tokenize_terms,
    word_edges,
)
from export.translators.text_ops import (
    exclude_tags,
    padded_ids_to_tokens,
    source_word_spans,
    target_word_spans,
    trim,
    truncate_ids,
    truncate_text,
)
from export.translators.translation import IMPOSSIBLE_SCORE
from keras_transformer.config import PAD_ID
from keras_transformer.types import Tensor, TensorLike, TransformerLike

if typing.TYPE_CHECKING:
    from export.tokenizers.pretrained_tokenizers import TokenizerPair
    from export.tokenizers.tokenizer import Tokenizer


class TextGraph:
    """Translates and scores text inside a graph, of this process or an export.

    Bytes that are not UTF-8 count as U+FFFD; NUL is dropped. Blank text gives
    empty text with score 0. Only rounding depends on the rest of a batch.

    Args:
        model: Transformer or Ensemble.
        tokenizer: Tokenizer of its vocabulary, or TokenizerPair.
        max_source_tokens: maximum number of ids of a source, the end id
            included; longer ones are truncated.
        **search: arguments of GraphTranslator.

    Attributes:
        translator: GraphTranslator.
        source_limit: maximum number of ids of a source.
        target_limit: maximum number of ids of a translation.
    """

    def __init__(
        self,
        model: TransformerLike,
        tokenizer: "Tokenizer | TokenizerPair",
        max_source_tokens: int,
        **search: typing.Any,
    ):
        self.tokenizer = tokenizer
        model = model_for_tokenizer(model, tokenizer)
        self.translator = GraphTranslator(model, **search)
        self.source_limit, self.target_limit = length_limits(
            self.translator.config, max_source_tokens
        )

    # Not in the constructor, since it takes time.
    @functools.cached_property
    def word_edges(self) -> kt.WordEdges | None:
        """The kt.WordEdges of the target's tokens; None without them."""
        return word_edges(self.tokenizer.target)

    def encode(self, text: Tensor) -> tuple[Tensor, Tensor]:
        """Returns ids, int32 [B, S], and which rows were truncated, bool [B].

        `text`, string [B], has its tags.
        """
        return _encode(self.tokenizer.source, text, self.source_limit)

    def encode_target(self, translation: Tensor) -> tuple[Tensor, Tensor]:
        """Returns ids and which rows were truncated, as `encode`."""
        return _encode(self.tokenizer.target, translation, self.target_limit)

    def count_tokens(self, text: Tensor) -> dict[str, Tensor]:
        """Returns lengths before truncation, limits and `truncated`, a dict."""
        return _count_tokens(self.tokenizer.source, text, self.source_limit)

    def count_target_tokens(self, translation: Tensor) -> dict[str, Tensor]:
        """Returns lengths of translations, as `count_tokens`."""
        return _count_tokens(
            self.tokenizer.target, translation, self.target_limit
        )

    def search(
        self,
        source: Tensor,
        n: TensorLike,
        search: Callable[..., SearchOutput] | None = None,
        **options: typing.Any,
    ) -> tuple[Tensor, Tensor, SearchOutput]:
        """Returns the n best tokens, scores, and the SearchOutput.

        `search` is a function like `GraphTranslator.search`, the default, and
        `options` are its arguments.
        """
        output = (search or self.translator.search)(source, **options)
        has_text = has_tokens(source)
        tokens = tf.where(has_text[:, None, None], output.tokens[:, :n], PAD_ID)
        blank_scores = tf.where(tf.range(n) == 0, 0.0, IMPOSSIBLE_SCORE)
        scores = tf.where(has_text[:, None], output.scores[:, :n], blank_scores)
        return tokens, scores, output

    def n_best(
        self, source: Tensor, n: TensorLike, **options: typing.Any
    ) -> dict[str, Tensor]:
        """Returns `translations`, string [B, n], and `scores`, a dict."""
        tokens, scores, _ = self.search(source, n, **options)
        return {"translations": self.decode(tokens), "scores": scores}

    def align(
        self, source: Tensor, text: Tensor, **options: typing.Any
    ) -> dict[str, Tensor]:
        """Returns the best translations with tokens, words and attention.

        `text` are the texts of `source` with their tags.
        """
        tokens, scores, output = self.search(source, 1, align=True, **options)
        # Compiled searches pad sources.
        source, target = trim(source), trim(tokens[:, 0])
        alignment = output.alignments[
            :, 0, : tf.shape(target)[1], : tf.shape(source)[1]
        ]
        is_text = has_tokens(source)[:, None]
        is_source = (source != PAD_ID) & is_text
        source = tf.where(is_source, source, PAD_ID)
        is_target = target != PAD_ID
        is_pair = is_target[:, :, None] & is_source[:, None]
        sources, targets = self.tokenizer.source, self.tokenizer.target
        source_words = source_word_spans(
            sources, text, source, self.source_limit
        )
        return {
            "translation": targets.detokenize(target),
            "score": scores[:, 0],
            "source_words": exclude_tags(sources, source, source_words),
            "target_words": target_word_spans(targets, target),
            "source_tokens": padded_ids_to_tokens(sources, source),
            "target_tokens": padded_ids_to_tokens(targets, target),
            "alignment": tf.where(is_pair, alignment, 0.0),
            "token_log_probs": tf.where(
                is_target, output.log_probs[:, : tf.shape(target)[1]], 0.0
            ),
        }

    def constrain(
        self, source_terms: Tensor, target_terms: Tensor, n: int
    ) -> tuple[dict[str, typing.Any], Tensor]:
        """Returns options of a search for terms, and bool [B].

        `target_terms`, string [B, C], is "" where a text lacks the source's
        term. The second result tells whether tokens can spell the row's terms.
        """
        # The search needs at least one.
        is_missing = tf.cast(tf.shape(source_terms)[1] == 0, tf.int32)
        padding = [[0, 0], [0, is_missing]]
        sources, targets = (
            tf.pad(each, padding) for each in (source_terms, target_terms)
        )
        terms, is_wrong = tokenize_terms(self.tokenizer.target, targets)
        options = {
            "terms": terms,
            "copied_terms": find_copies(sources, targets),
            "word_edges": self.word_edges,
            "n_best": n,
        }
        return options, ~tf.reduce_any(is_wrong, axis=1)

    def score(self, source: Tensor, target: Tensor) -> Tensor:
        """Returns log-probabilities of given ids, float32 [B].

        A blank source scores 0 with a blank target, else -1e9.
        """
        blank_score = tf.where(has_tokens(target), IMPOSSIBLE_SCORE, 0.0)
        score = self.translator.score(source, target)
        return tf.where(has_tokens(source), score, blank_score)

    def sample(
        self, source: Tensor, seeds: Tensor, config: kt.SamplingConfig
    ) -> dict[str, Tensor]:
        """Returns `translations` and log-probabilities as `scores`, a dict."""
        samples = self.translator.sample(source, seeds, config)
        return {
            "translations": self.decode(samples.tokens),
            "scores": samples.log_probs,
        }

    def decode(self, tokens: Tensor) -> Tensor:
        """Returns the texts of int32 [B, N, T], string [B, N]."""
        batch, n, length = tf.unstack(tf.shape(tokens))
        texts = self.tokenizer.target.detokenize(
            tf.reshape(tokens, [batch * n, length])
        )
        return tf.reshape(texts, [batch, n])


def has_tokens(ids: Tensor) -> Tensor:
    """Returns which rows of ids have more than the end id, bool [B]."""
    return tf.math.count_nonzero(ids, axis=1) > 1


def _encode(tokenizer, text, limit):
    """Returns int32 [B, S] and bool [B]: which rows were truncated."""
    text, has_more_characters = truncate_text(
        tokenizer, text, character_limit(limit)
    )
    ids, has_more_ids = truncate_ids(tokenizer.tokenize(text), limit)
    return ids, has_more_characters | has_more_ids


def _count_tokens(tokenizer, text, limit):
    text, truncated = truncate_text(tokenizer, text, character_limit(limit))
    lengths = tf.cast(tokenizer.tokenize(text).row_lengths(), tf.int32)
    limits = tf.fill(tf.shape(lengths), limit)
    truncated |= lengths > limit
    return {"length": lengths, "limit": limits, "truncated": truncated}
