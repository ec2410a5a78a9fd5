"""An output layer of some pieces: what a model never says costs nothing.

A model of one vocabulary for both languages says half of it, and at each step
multiplies by all, normalises all and looks for the best among all.
"""

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
    are numbers then, of which `TargetPieces.to_ids` makes ids.
    Log-probabilities are those of a softmax over the pieces: higher than the
    Transformer's own by what that gives to all others. To score a given
    translation, which may have others, is the Transformer's work.

    The rows of the pieces are copied once, here: later changes of the
    Transformer's weights do not reach the copy.

    Args:
        model: Transformer.
        pieces: TargetPieces.

    Attributes:
        config: of the Transformer.
        encode: of the Transformer.
        alignment: of the Transformer.
        weights: list of keras.Variable: the Transformer's, then the copy,
            float32 [D, V'], and of an output bias [V'].

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
        output = model.output_embedding
        # Transposed, as a step multiplies by it.
        self._output = [_rows_of(output.embeddings, pieces.ids, "projection")]
        if output.bias is not None:
            self._output.append(_rows_of(output.bias, pieces.ids, "bias"))
        self.weights = [*model.weights, *self._output]

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
        return lambda states: linear(ops.cast(states, "float32"), *self._output)

    def states_step(self, tokens, parents, index, state):
        """See the base class."""
        tokens = self._pieces.to_ids(tokens)
        return super().states_step(tokens, parents, index, state)


def _rows_of(weight, ids, name):
    """Returns a variable of some rows, transposed where they are rows."""
    rows = ops.take(ops.cast(weight, "float32"), ids, axis=0)
    return keras.Variable(
        ops.transpose(rows),
        trainable=False,
        dtype="float32",
        autocast=False,
        name=f"target_pieces_{name}",
    )
