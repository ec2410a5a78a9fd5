"""Beam search over a subset of the output vocabulary.

With a joint vocabulary, a model generates only about half of the tokens, yet
each step multiplies by the embeddings of all. Excluded tokens keep their share
of the softmax, since label smoothing trains each to epsilon_ls / (V - 1): if
the other tokens got this share, longer hypotheses would win. The sum of their
exponentials is estimated from the mean and covariance of their embeddings.
"""

import abc
import functools
import math
import typing
from collections.abc import Callable, Iterable

import keras
import numpy as np
from keras import ops

from keras_transformer.config import END_ID, PAD_ID, UNKNOWN_ID
from keras_transformer.decoding.beam_decoder import BeamDecoder
from keras_transformer.decoding.ensemble import Ensemble
from keras_transformer.ids import arange, as_ids, bound_ids
from keras_transformer.kernels import linear
from keras_transformer.layers.attention import KVCache
from keras_transformer.loss import MIN_POSSIBLE_LOGIT
from keras_transformer.types import Tensor, TensorLike, TransformerLike

# The special ids, 0 to 3, are in every subset and unchanged.
_NUM_SPECIAL = END_ID + 1

# Sizes of fixed subsets are multiples of the group size in `beam_search`.
_SIZE_MULTIPLE = 32

# Exceeds the expected count of any token in a sentence.
_HIGHEST_FREQUENCY = 1e6


class OutputVocabulary(abc.ABC):
    """A subset of the vocabulary that a search may generate.

    `OutputVocabulary.fixed` creates one subset for all sentences,
    `OutputVocabulary.shortlist` one for each sentence. The search uses local
    ids: indices into the subset, ascending ids that include the special ids.
    """

    @staticmethod
    def fixed(ids: Iterable[int], vocabulary_size: int) -> "FixedVocabulary":
        """Returns a FixedVocabulary; see there."""
        return FixedVocabulary(ids, vocabulary_size)

    @staticmethod
    def shortlist(
        targets: TensorLike,
        probabilities: TensorLike,
        frequencies: TensorLike,
        size: int,
    ) -> "LexicalShortlist":
        """Returns a LexicalShortlist; see there."""
        return LexicalShortlist(targets, probabilities, frequencies, size)

    def restrict(
        self, model: TransformerLike
    ) -> "ReducedVocabularyModel | Ensemble":
        """Returns a ReducedVocabularyModel, or an Ensemble of several.

        A model with another vocabulary size, or a shortlist of the whole
        vocabulary, raises ValueError.
        """
        return replace_output_layer(model, self.output_layer)

    @abc.abstractmethod
    def to_vocabulary_ids(self, local_ids: Tensor, source: Tensor) -> Tensor:
        """Returns int32 [B, ...] ids for the search's source ids [B, S].

        For ids outside their vocabularies see `bound_ids`; these give -1.
        """

    @abc.abstractmethod
    def output_layer(self, model: TransformerLike) -> typing.Any:
        """Returns an output layer; for its methods see `FullOutputLayer`."""


def replace_output_layer(
    model: TransformerLike, new_layer: Callable[[TransformerLike], typing.Any]
) -> "ReducedVocabularyModel | Ensemble":
    """Returns the model, or each of an Ensemble, with `new_layer(model)`."""
    if isinstance(model, Ensemble):
        models = [
            replace_output_layer(each, new_layer) for each in model.models
        ]
        return Ensemble(models, model.mean)
    return ReducedVocabularyModel(model, new_layer(model))


class ReducedVocabularyModel:
    """A Transformer whose searches have another output layer.

    With that of a subset of the vocabulary, `translate_ids` returns local ids.
    The unknown token, which no search generates, represents all excluded
    tokens: its logit is the log of the estimated sum of their exponentials.
    """

    def __init__(self, model: TransformerLike, output_layer: typing.Any):
        self.config = model.config
        self.num_given_tokens = model.num_given_tokens
        self.encode = model.encode
        self.alignment = model.alignment
        self.weights = [*model.weights, *output_layer.weights]
        self._model = model
        self._output_layer = output_layer

    def beam_decoder(
        self, beam_size: int, cache: type[KVCache] = KVCache
    ) -> BeamDecoder:
        """Returns the decoder; see `Transformer.beam_decoder`."""
        return self._model.beam_decoder(beam_size, cache, self._output_layer)


class FixedVocabulary(OutputVocabulary):
    """One subset for all sentences.

    The lowest excluded ids are added up to a multiple of 32. `ids`, an
    ascending int32 array [V'], has the vocabulary id of each local id.
    """

    def __init__(self, ids: Iterable[int], vocabulary_size: int):
        all_ids = np.arange(vocabulary_size)
        allowed = np.union1d(np.fromiter(ids, int), all_ids[:_NUM_SPECIAL])
        outside = np.setdiff1d(allowed, all_ids)
        if outside.size:
            raise ValueError(
                f"Expected ids from 0 to {len(all_ids) - 1}, got {outside[0]}."
            )
        excluded = np.setdiff1d(all_ids, allowed)
        added = excluded[: -len(allowed) % _SIZE_MULTIPLE]
        self.ids = np.union1d(allowed, added).astype(np.int32)
        self.vocabulary_size = vocabulary_size

    def to_vocabulary_ids(
        self, local_ids: Tensor, source: Tensor | None = None
    ) -> Tensor:
        """Returns the vocabulary ids of int32 local ids of any shape."""
        return _take_inside(local_ids, len(self.ids), self._take)

    def _take(self, local_ids):
        return ops.take(ops.convert_to_tensor(self.ids), local_ids, axis=0)

    def output_layer(self, model: TransformerLike) -> typing.Any:
        """See the base class."""
        size = model.config.vocabulary_size
        if size != self.vocabulary_size:
            raise ValueError(
                f"Expected vocabulary_size={self.vocabulary_size}, got {size}."
            )
        return _FixedOutputLayer(model.output_embedding, self)


class _FixedOutputLayer:
    """Multiplies states by a copy of the subset's embeddings.

    The logit of the unknown token is the mean logit of the excluded tokens,
    which is the state times their mean embedding, plus their spread.
    """

    def __init__(self, embedding, subset):
        matrix = _read_output_matrix(embedding)
        excluded = np.setdiff1d(np.arange(len(matrix)), subset.ids)
        excluded = _select_rows(embedding, matrix, [*excluded, UNKNOWN_ID])
        self.excluded = ExcludedTokensEstimate(excluded)
        allowed = matrix[subset.ids]
        allowed[UNKNOWN_ID] = excluded.mean(axis=0)
        self.projection = embedding.new_projection(allowed)
        self._embedding = embedding
        self._subset = subset
        self.weights = [*self.projection.weights, *self.excluded.weights]

    def prepare(self, source):
        return ()

    def to_vocabulary_ids(self, tokens, prepared):
        return self._subset._take(tokens)

    def logits(self, states, prepared):
        logits = self.projection(states)
        spread = self.excluded.spread(self._embedding.append_bias_input(states))
        is_unknown = arange(logits.shape[-1]) == UNKNOWN_ID
        return ops.where(is_unknown, logits + spread, logits)


class LexicalShortlist(OutputVocabulary):
    """The likely translations of each sentence's tokens.

    After L'Hostis et al. 2016 (arXiv 1610.00072): a sentence's subset has the
    tokens with the highest expected counts in its translation, the sums of
    their probabilities over the source tokens. It does not depend on the rest
    of the batch. Invalid shapes or ids raise ValueError.

    Args:
        targets: int32 [V_s, n], n target ids for each source id.
        probabilities: float32 [V_s, n], their probabilities, or 0.
        frequencies: float32 [V], added to the expected count of each target id;
            0 for ids in no translation.
        size: L, number of tokens per sentence, above that of special ids.
    """

    def __init__(
        self,
        targets: TensorLike,
        probabilities: TensorLike,
        frequencies: TensorLike,
        size: int,
    ):
        targets, probabilities = np.asarray(targets), np.asarray(probabilities)
        self.vocabulary_size = len(frequencies)
        if targets.ndim != 2 or targets.shape != probabilities.shape:
            raise ValueError(
                "Expected targets and probabilities of one shape [V_s, n], got "
                f"{targets.shape} and {probabilities.shape}."
            )
        last = self.vocabulary_size - 1
        if targets.size and not 0 <= targets.min() <= targets.max() <= last:
            raise ValueError(f"Expected targets from 0 to {last}.")
        if size <= _NUM_SPECIAL:
            raise ValueError(f"size must be above {_NUM_SPECIAL}, not {size}.")
        self.size = min(size, self.vocabulary_size)
        self.source_vocabulary_size = len(targets)
        frequencies = np.array(frequencies, "float32")
        frequencies[:_NUM_SPECIAL] = _HIGHEST_FREQUENCY
        order = np.argsort(-frequencies, kind="stable")
        # Estimates are for one set of excluded ids: that of an empty sentence,
        # whose subset has the most frequent ids, stands for all sentences.
        excluded = order[self.size :]
        occurs = frequencies[excluded] > 0
        self.rare_ids = np.append(excluded[occurs], UNKNOWN_ID)
        self.unseen_ids = np.sort(excluded[~occurs])
        self.weights = [
            _constant("targets", targets, "int32"),
            _constant("probabilities", probabilities),
            _constant("frequencies", frequencies),
        ]

    def sentence_ids(self, source: TensorLike) -> Tensor:
        """Returns each sentence's subset, ascending ids: int32 [B, L]."""
        size = self.source_vocabulary_size
        source, is_inside = bound_ids(as_ids(source), size, "source id")
        targets, probabilities, frequencies = self.weights
        counts = ops.take(probabilities, source, axis=0)
        counts *= ops.cast(ops.not_equal(source, PAD_ID), "float32")[..., None]
        target_ids = ops.take(targets, source, axis=0)  # [B, S, n]
        batch, size = ops.shape(source)[0], self.vocabulary_size
        indices = arange(batch)[:, None, None] * size + target_ids
        expected_counts = ops.scatter(
            ops.reshape(indices, (-1, 1)),
            ops.reshape(counts, (-1,)),
            (batch * size,),
        )
        expected_counts = ops.reshape(expected_counts, (batch, size))
        _, ids = ops.top_k(expected_counts + frequencies, self.size)
        ids = ops.sort(ops.cast(ids, "int32"), axis=-1)
        return ops.where(ops.all(is_inside, axis=1, keepdims=True), ids, -1)

    def to_vocabulary_ids(self, local_ids: Tensor, source: Tensor) -> Tensor:
        """Returns the vocabulary ids; see `OutputVocabulary`."""
        ids = self.sentence_ids(source)
        return _take_inside(
            local_ids, self.size, functools.partial(_take_per_sentence, ids)
        )

    def output_layer(self, model: TransformerLike) -> typing.Any:
        """See the base class."""
        config = model.config
        sizes = config.encoder_vocabulary_size, config.vocabulary_size
        expected = self.source_vocabulary_size, self.vocabulary_size
        if sizes != expected:
            raise ValueError(
                f"Expected source and target vocabularies of {expected} "
                f"tokens, got {sizes}."
            )
        if self.size == self.vocabulary_size:
            raise ValueError(
                f"Expected a shortlist of fewer than {self.size} tokens."
            )
        return _ShortlistOutputLayer(model.output_embedding, self)


class _ShortlistOutputLayer:
    """Multiplies each sentence's states by the embeddings of its subset."""

    def __init__(self, embedding, shortlist):
        self._embedding = embedding
        self._shortlist = shortlist
        matrix = _read_output_matrix(embedding)
        # Separate estimates, since embeddings of rare and unseen tokens differ.
        self._excluded = [
            ExcludedTokensEstimate(_select_rows(embedding, matrix, ids))
            for ids in (shortlist.rare_ids, shortlist.unseen_ids)
            if len(ids)
        ]
        self.weights = list(shortlist.weights)
        for estimate in self._excluded:
            self.weights += estimate.weights

    def prepare(self, source):
        """Returns ids, int32 [B, L], and embeddings, float32 [B, D, L]."""
        ids = self._shortlist.sentence_ids(source)
        matrix = self._embedding.output_matrix(ids)
        return ids, ops.transpose(matrix, (0, 2, 1))

    def to_vocabulary_ids(self, tokens, prepared):
        return _take_per_sentence(prepared[0], tokens)

    def logits(self, states, prepared):
        states = self._embedding.append_bias_input(states)
        logits = ops.matmul(states, prepared[1])
        estimates = [excluded.logit(states) for excluded in self._excluded]
        unknown_logit = functools.reduce(ops.logaddexp, estimates)
        is_unknown = arange(self._shortlist.size) == UNKNOWN_ID
        return ops.where(is_unknown, unknown_logit, logits)


def _read_output_matrix(embedding):
    matrix = ops.convert_to_numpy(embedding.output_matrix())
    return matrix.astype("float64")


def _select_rows(embedding, matrix, ids):
    """Returns the rows of those ids that have a share of the softmax."""
    rows = matrix[ids]
    if embedding.bias is None:
        return rows
    # One bias of -1e9 would move mean and variance far beyond all logits.
    has_share = rows[:, -1] > MIN_POSSIBLE_LOGIT
    return rows[has_share] if has_share.any() else rows


class ExcludedTokensEstimate:
    """Estimates the log-sum-exp of the logits of excluded tokens.

    It keeps the mean and covariance of their embeddings, float64 [n, D], and
    `log_count`, log n.
    """

    def __init__(self, embeddings: np.ndarray):
        mean = embeddings.mean(axis=0)
        centered = embeddings - mean
        self.weights = [
            _constant("mean", mean),
            _constant("covariance", centered.T @ centered / len(embeddings)),
        ]
        self.log_count = math.log(len(embeddings))

    def logit(self, states: Tensor) -> Tensor:
        """Returns the estimate, float32 [..., 1], for float32 [..., D]."""
        mean = ops.sum(states * self.weights[0], axis=-1, keepdims=True)
        return mean + self.spread(states)

    def spread(self, states: Tensor) -> Tensor:
        """Returns the estimate minus the mean logit: float32 [..., 1].

        For n normally distributed logits it is log n + variance / 2. Above a
        variance of 2 log n the few highest logits dominate, and it is nearly
        the highest of n draws, sqrt(variance * 2 log n); in physics the random
        energy model (Derrida 1981).
        """
        variance = ops.sum(
            states * linear(states, self.weights[1]), axis=-1, keepdims=True
        )
        variance = ops.maximum(variance, 0.0)  # Despite rounding.
        log_count = self.log_count
        return ops.where(
            variance < 2 * log_count,
            log_count + 0.5 * variance,
            ops.sqrt(variance * (2 * log_count)),
        )


def _constant(name, values, dtype="float32"):
    """Returns a keras.Variable that is not trained."""
    return keras.Variable(
        np.asarray(values).astype(dtype),
        trainable=False,
        dtype=dtype,
        autocast=False,
        name=f"output_vocabulary_{name}",
    )


def _take_inside(local_ids, count, take):
    """Returns the ids that `take` returns, -1 outside: int32 [...]."""
    local_ids, is_inside = bound_ids(as_ids(local_ids), count, "local id")
    return ops.where(is_inside, take(local_ids), -1)


def _take_per_sentence(ids, local_ids):
    """Returns the ids, int32 [B, L], at local ids, int32 [B, ...]."""
    batch = ops.shape(local_ids)[0]
    flat = ops.reshape(local_ids, (batch, -1))
    taken = ops.take_along_axis(ids, flat, axis=1)
    return ops.reshape(taken, ops.shape(local_ids))
