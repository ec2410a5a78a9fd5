"""An output layer of some pieces: what a model never says costs nothing.

A model of one vocabulary for both languages says half of it, and at each step
multiplies by all, normalises all and looks for the best among all.

The pieces that are left out have a share of the softmax all the same: training
with label smoothing gives them epsilon_ls / V each. Without it every piece that
is said would raise a hypothesis, and longer ones would win. So the sum of
their exponentials is estimated, from their rows' mean and covariance.
"""

import math

import keras
import numpy as np
from keras import ops

from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from keras_transformer.decoding.beam_decoder import BeamDecoder
from keras_transformer.decoding.ensemble import Ensemble
from keras_transformer.kernels.projections import linear
from keras_transformer.layers.cache import Cache

_SPECIAL_IDS = (PAD_ID, UNKNOWN_ID, BEGIN_ID, END_ID)

# The highest logits are looked for in groups of so many.
_MULTIPLE = 32


class TargetPieces:
    """Some pieces of a vocabulary, numbered anew, in the order of their ids.

    The special ids are always among them and keep their numbers, so that a
    search over the numbers is like any other. They are filled up with the
    lowest other ids to a multiple of 32.

    Args:
        ids: iterable of int, of the pieces; in any order.
        vocabulary_size: V, of the target.

    Attributes:
        ids: int32 array [V'], rising: the id of each number.
        vocabulary_size: as given.

    Raises:
        ValueError: an id is not of the vocabulary.
    """

    def __init__(self, ids, vocabulary_size):
        kept = {*map(int, ids), *_SPECIAL_IDS}
        outside = [each for each in kept if not 0 <= each < vocabulary_size]
        if outside:
            raise ValueError(
                f"Target pieces have ids from 0 to {vocabulary_size - 1}, not "
                f"{min(outside)}."
            )
        others = (each for each in range(vocabulary_size) if each not in kept)
        fill = [each for each, _ in zip(others, range(-len(kept) % _MULTIPLE))]
        self.ids = np.array(sorted(kept.union(fill)), np.int32)
        self.vocabulary_size = vocabulary_size

    def to_ids(self, numbers):
        """Returns the ids of int32 numbers, in the same shape."""
        return ops.take(ops.convert_to_tensor(self.ids), numbers, axis=0)

    def only(self, model):
        """Returns a model whose searches say these pieces alone.

        Args:
            model: Transformer, or Ensemble of several.

        Returns:
            TransformerOfPieces, or Ensemble of several.

        Raises:
            ValueError: the target's vocabulary has another size.
        """
        if isinstance(model, Ensemble):
            return Ensemble([*map(self.only, model.models)], model.mean)
        return TransformerOfPieces(model, self)


class TransformerOfPieces:
    """A Transformer whose searches say some pieces of its vocabulary alone.

    It takes the Transformer's place in `translate_ids` and its like; tokens
    are numbers then, of which `TargetPieces.to_ids` makes ids. The unknown
    piece, which no search says, stands for all others: its logit is the
    estimate of `_spread_of_others` above their mean, so that log-probabilities
    are nearly the Transformer's own. To score a given translation, which may
    have any piece, is the Transformer's work.

    The rows of the pieces are copied once, here: later changes of the
    Transformer's weights do not reach the copy.

    Args:
        model: Transformer.
        pieces: TargetPieces.

    Attributes:
        config: of the Transformer.
        encode: of the Transformer.
        alignment: of the Transformer.
        weights: list of keras.Variable: the Transformer's, then the copy and
            what is known of the others.

    Raises:
        ValueError: the target's vocabulary has another size than the pieces'.
    """

    def __init__(self, model, pieces):
        if model.config.vocabulary_size != pieces.vocabulary_size:
            raise ValueError(
                f"The pieces are of {pieces.vocabulary_size}, and the model "
                f"has vocabulary_size={model.config.vocabulary_size}."
            )
        self.config = model.config
        self.encode = model.encode
        self.alignment = model.alignment
        self._model = model
        self._pieces = pieces
        self._output = _OutputOfPieces(model.output_embedding, pieces)
        self.weights = [*model.weights, *self._output.weights]

    def beam_decoder(self, beam_size, cache=Cache):
        """Returns what decodes `beam_size` beams of each sentence.

        Args:
            beam_size: K.
            cache: Cache, or a subclass of it.
        """
        return _DecoderOfPieces(
            self._model, beam_size, cache, self._pieces, self._output
        )


class _DecoderOfPieces(BeamDecoder):
    """A BeamDecoder whose tokens are numbers and whose logits are theirs."""

    def __init__(self, model, beam_size, cache, pieces, output):
        self._pieces = pieces
        self._output = output
        super().__init__(model, beam_size, cache)

    def _output_layer(self):
        """See the base class."""
        return self._output.logits

    def states_step(self, tokens, parents, index, state):
        """See the base class."""
        tokens = self._pieces.to_ids(tokens)
        return super().states_step(tokens, parents, index, state)


class _OutputOfPieces:
    """The output layer.

    Args:
        embedding: SharedEmbedding, the whole output layer.
        pieces: TargetPieces.

    Attributes:
        weights: list of keras.Variable: float32 [D + 1, V'], the pieces' rows
            transposed, as a step multiplies by them, with the others' mean in
            the unknown piece's place and a row that lets a number be added
            there; and the others' covariance, float32 [D, D]. With an output
            bias there is one more than D.
    """

    def __init__(self, embedding, pieces):
        matrix = ops.convert_to_numpy(embedding.matrix()).astype("float64")
        others = np.ones(len(matrix), bool)
        others[pieces.ids] = False
        others[UNKNOWN_ID] = True
        mean = matrix[others].mean(axis=0)
        apart = matrix[others] - mean
        kept = matrix[pieces.ids]
        kept[UNKNOWN_ID] = mean
        added = np.zeros((len(kept), 1))
        added[UNKNOWN_ID] = 1.0
        self._beside = embedding.beside
        self._count = int(others.sum())
        self.weights = [
            _constant("projection", np.concatenate([kept, added], axis=1).T),
            _constant("covariance", apart.T @ apart / self._count),
        ]

    def logits(self, states):
        """Returns float32 [..., V'] for float [..., D]."""
        projection, covariance = self.weights
        states = self._beside(ops.cast(states, "float32"))
        variance = ops.sum(
            states * linear(states, covariance), axis=-1, keepdims=True
        )
        spread = _spread_of_others(variance, math.log(self._count))
        return linear(ops.concatenate([states, spread], axis=-1), projection)


def _spread_of_others(variance, log_count):
    """Returns the log-sum-exp of numbers, above their mean.

    Of n numbers that spread as a normal distribution does it is log n + half
    the variance, until the few highest decide: from a variance of 2 log n on
    it is the root of variance * 2 log n (the random energy model, Derrida
    1981).

    Args:
        variance: float32 [..., 1].
        log_count: log n.
    """
    # Rounding may leave it below 0.
    variance = ops.maximum(variance, 0.0)
    return ops.where(
        variance < 2 * log_count,
        log_count + 0.5 * variance,
        ops.sqrt(variance * (2 * log_count)),
    )


def _constant(name, values):
    return keras.Variable(
        values.astype("float32"),
        trainable=False,
        dtype="float32",
        autocast=False,
        name=f"target_pieces_{name}",
    )
