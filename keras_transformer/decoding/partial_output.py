"""Searches whose output layer has some of the pieces, and what the others have.

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
from keras_transformer.kernels import linear
from keras_transformer.layers.attention import KVCache

# They are among any pieces, and keep their numbers.
SPECIAL_IDS = (PAD_ID, UNKNOWN_ID, BEGIN_ID, END_ID)


class TransformerOfPieces:
    """A Transformer whose searches say some pieces of its vocabulary alone.

    It takes the Transformer's place in `translate_ids` and its like; tokens
    are numbers then, of which `to_ids` makes ids. The special ids keep their
    numbers. The unknown piece, which no search says, stands for all others:
    its logit is the estimate of OtherPieces above their mean, so that
    log-probabilities are nearly the Transformer's own. To score a given
    translation, which may have any piece, is the Transformer's work.

    Args:
        model: Transformer.
        output: the output layer, with `weights`, a list of keras.Variable;
            `kept(source)`, what it keeps of each sentence of int32 [B, S]
            ids: a nest of tensors with the sentences in front;
            `to_ids(numbers, kept)`, int32 [B, ...]; and `logits(states,
            kept)`, float32 [B, K, V'] for float [B, K, D].

    Attributes:
        config: of the Transformer.
        encode: of the Transformer.
        alignment: of the Transformer.
        output: as given.
        weights: list of keras.Variable: the Transformer's, then the output
            layer's.
    """

    def __init__(self, model, output):
        self.config = model.config
        self.encode = model.encode
        self.alignment = model.alignment
        self.output = output
        self._model = model
        self.weights = [*model.weights, *output.weights]

    def beam_decoder(self, beam_size, cache=KVCache):
        """Returns what decodes `beam_size` beams of each sentence.

        Args:
            beam_size: K.
            cache: KVCache, or a subclass of it.
        """
        return _DecoderOfPieces(self._model, beam_size, cache, self.output)


class _DecoderOfPieces(BeamDecoder):
    """A BeamDecoder whose tokens are numbers and whose logits are theirs."""

    def __init__(self, model, beam_size, cache, output):
        self._output = output
        super().__init__(model, beam_size, cache)

    def _output_layer(self):
        """Makes none: logits are the output's."""

    def start(self, source, capacity, memory=None):
        """See the base class."""
        state = super().start(source, capacity, memory)
        return state._replace(output=self._output.kept(source))

    def attending_step(self, tokens, parents, index, state):
        """See the base class."""
        states, *rest = self.states_step(tokens, parents, index, state)
        return self._output.logits(states, state.output), *rest

    def states_step(self, tokens, parents, index, state):
        """See the base class."""
        tokens = self._output.to_ids(tokens, state.output)
        return super().states_step(tokens, parents, index, state)


class OtherPieces:
    """What is known of the pieces that are left out.

    Args:
        rows: float64 [n, D] array, theirs.

    Attributes:
        weights: list of keras.Variable: the rows' mean, float32 [D], and
            covariance, float32 [D, D].
    """

    def __init__(self, rows):
        mean = rows.mean(axis=0)
        apart = rows - mean
        self.weights = [
            constant("mean", mean),
            constant("covariance", apart.T @ apart / len(rows)),
        ]
        self._log_count = math.log(len(rows))

    def logit(self, states):
        """Returns the log-sum-exp of their logits: float32 [..., 1].

        Args:
            states: float32 [..., D].
        """
        mean = ops.sum(states * self.weights[0], axis=-1, keepdims=True)
        return mean + self.spread(states)

    def spread(self, states):
        """Returns the log-sum-exp of their logits above the mean logit.

        Of n numbers that spread as a normal distribution does it is log n +
        half the variance, until the few highest decide: from a variance of
        2 log n on it is the root of variance * 2 log n (the random energy
        model, Derrida 1981).

        Args:
            states: float32 [..., D].

        Returns:
            float32 [..., 1].
        """
        variance = ops.sum(
            states * linear(states, self.weights[1]), axis=-1, keepdims=True
        )
        # Rounding may leave it below 0.
        variance = ops.maximum(variance, 0.0)
        return ops.where(
            variance < 2 * self._log_count,
            self._log_count + 0.5 * variance,
            ops.sqrt(variance * (2 * self._log_count)),
        )


def constant(name, values, dtype="float32"):
    """Returns a keras.Variable that is not trained.

    Args:
        name: for error messages.
        values: array.
        dtype: of the variable.
    """
    return keras.Variable(
        np.asarray(values).astype(dtype),
        trainable=False,
        dtype=dtype,
        autocast=False,
        name=f"partial_output_{name}",
    )
