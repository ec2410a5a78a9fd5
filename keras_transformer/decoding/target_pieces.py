"""An output layer of some pieces: what a model never says costs nothing.

A model of one vocabulary for both languages says half of it, and at each step
multiplies by all, normalises all and looks for the best among all.
"""

import numpy as np
from keras import ops

from keras_transformer.config import UNKNOWN_ID
from keras_transformer.decoding.ensemble import Ensemble
from keras_transformer.decoding.partial_output import (
    SPECIAL_IDS,
    OtherPieces,
    TransformerOfPieces,
    constant,
)
from keras_transformer.kernels import linear

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
        kept = {*map(int, ids), *SPECIAL_IDS}
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
        if model.config.vocabulary_size != self.vocabulary_size:
            raise ValueError(
                f"The pieces are of {self.vocabulary_size}, and the model "
                f"has vocabulary_size={model.config.vocabulary_size}."
            )
        output = _OutputOfPieces(model.output_embedding, self)
        return TransformerOfPieces(model, output)


class _OutputOfPieces:
    """The output layer of some pieces, the same for all sentences.

    The rows of the pieces are copied once, here: later changes of the
    embedding's weights do not reach the copy.

    Args:
        embedding: SharedEmbedding, the whole output layer.
        pieces: TargetPieces.

    Attributes:
        weights: list of keras.Variable: float32 [D + 1, V'], the pieces' rows
            transposed, as a step multiplies by them, with the others' mean in
            the unknown piece's place and a row that lets a number be added
            there; and those of OtherPieces. With an output bias there is one
            more than D.
    """

    def __init__(self, embedding, pieces):
        matrix = ops.convert_to_numpy(embedding.output_matrix()).astype(
            "float64"
        )
        left_out = np.ones(len(matrix), bool)
        left_out[pieces.ids] = False
        left_out[UNKNOWN_ID] = True
        others = matrix[left_out]
        self._others = OtherPieces(others)
        kept = matrix[pieces.ids]
        kept[UNKNOWN_ID] = others.mean(axis=0)
        added = np.zeros((len(kept), 1))
        added[UNKNOWN_ID] = 1.0
        self._pieces = pieces
        self._beside = embedding.append_bias_input
        self._projection = constant(
            "projection", np.concatenate([kept, added], axis=1).T
        )
        self.weights = [self._projection, *self._others.weights]

    def kept(self, source):
        """See `TransformerOfPieces`."""
        del source
        return ()

    def to_ids(self, numbers, kept):
        """See `TransformerOfPieces`."""
        del kept
        return self._pieces.to_ids(numbers)

    def logits(self, states, kept):
        """See `TransformerOfPieces`."""
        del kept
        states = self._beside(ops.cast(states, "float32"))
        spread = self._others.spread(states)
        return linear(
            ops.concatenate([states, spread], axis=-1), self._projection
        )
