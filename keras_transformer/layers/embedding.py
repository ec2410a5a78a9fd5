"""Embeddings and the pre-softmax matrix: section 3.4."""

import math

import keras
from keras import ops

from keras_transformer.config import PAD_ID
from keras_transformer.kernels import at_least_float32, linear
from keras_transformer.layers.sequence_layer import (
    SequenceLayer,
    as_ids,
    look_up,
    require_counts,
)


@keras.saving.register_keras_serializable("keras_transformer")
class SharedEmbedding(SequenceLayer):
    """One matrix that embeds ids and, transposed, gives logits.

    Embeddings are multiplied by sqrt(d_model); the matrix begins with a
    standard deviation of d_model ** -0.5, so that they begin at unit scale.

    Args:
        vocabulary_size: V.
        d_model: D.
        mask_zero: whether the layers behind get Keras' mask of the ids that
            are not 0, as with `keras.layers.Embedding`.
        output_bias: whether logits have a bias, a number of each id.
        **kwargs: of `keras.layers.Layer`.

    Raises:
        ValueError: `vocabulary_size` or `d_model` is not a whole number of at
            least 1; or an id is outside, where `look_up` can tell.
    """

    def __init__(
        self,
        vocabulary_size,
        d_model,
        mask_zero=False,
        output_bias=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.d_model = d_model
        self.mask_zero = mask_zero
        self.output_bias = output_bias
        self.supports_masking = mask_zero
        # Ids that come as floats are not to be rounded.
        self.autocast = False
        require_counts(self, "vocabulary_size", "d_model")

    def build(self, input_shape=None):
        """Makes the matrix [V, D], and the bias [V] where there is one."""
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocabulary_size, self.d_model),
            initializer=keras.initializers.RandomNormal(
                stddev=self.d_model**-0.5
            ),
            # Logits are a float32 product under every policy.
            autocast=False,
        )
        self.bias = None
        if self.output_bias:
            self.bias = self.add_weight(
                name="bias",
                shape=(self.vocabulary_size,),
                initializer="zeros",
                autocast=False,
            )
        self.built = True

    def call(self, ids):
        """Embeds ids [B, T] as float [B, T, D]; floats are cast to int32."""
        embedded = look_up(self.embeddings, as_ids(ids), "id")
        embedded = ops.cast(embedded, self.compute_dtype)
        return embedded * math.sqrt(self.d_model)

    def compute_mask(self, ids, mask=None):
        """Returns True where an id is not 0: [B, T]; None without mask_zero."""
        return ops.not_equal(as_ids(ids), PAD_ID) if self.mask_zero else None

    def logits(self, states):
        """Returns float32 [..., V] for float [..., D].

        The product runs in float32 under every dtype policy, but for float64:
        a rounding of logits is a rounding of the loss.
        """
        return self.project(states, self.projection())

    def projection(self):
        """Returns the pre-softmax matrix, float32 [D, V]."""
        return ops.transpose(at_least_float32(self.embeddings))

    def project(self, states, projection):
        """Returns float32 [..., V] for float [..., D] and a `projection`.

        Those who take many small products with it transpose it only once.
        """
        return linear(at_least_float32(states), projection, self.bias)

    def matrix(self):
        """Returns the embeddings with the bias, where there is one, beside.

        Logits are `beside(states)` times its transpose: so whoever knows the
        gradient of a product knows that of the bias as well.

        Returns:
            float32 [V, D], or [V, D + 1].
        """
        matrix = ops.cast(self.embeddings, "float32")
        if self.bias is None:
            return matrix
        bias = ops.cast(self.bias, "float32")
        return ops.concatenate([matrix, bias[:, None]], axis=1)

    def rows(self, ids):
        """Returns rows of `matrix`, without making the whole of it.

        Args:
            ids: int32 [...].

        Returns:
            float32 [..., D], or [..., D + 1].
        """
        rows = ops.cast(ops.take(self.embeddings, ids, axis=0), "float32")
        if self.bias is None:
            return rows
        bias = ops.cast(ops.take(self.bias, ids, axis=0), "float32")
        return ops.concatenate([rows, bias[..., None]], axis=-1)

    def beside(self, states):
        """Returns float [..., D], or float32 [..., D + 1] that end with 1."""
        if self.bias is None:
            return states
        states = ops.cast(states, "float32")
        return ops.concatenate([states, ops.ones_like(states[..., :1])], -1)

    def parts(self, matrix):
        """Returns what a `matrix`, or its gradient, is made of.

        Args:
            matrix: float [V, D], or [V, D + 1].

        Returns:
            List of pairs: a weight of this layer, and its part.
        """
        if self.bias is None:
            return [(self.embeddings, matrix)]
        return [(self.embeddings, matrix[:, :-1]), (self.bias, matrix[:, -1])]

    def compute_output_shape(self, input_shape):
        """Returns the shape of the embedded ids."""
        return (*input_shape, self.d_model)

    def quantize(self, mode=None, config=None, **kwargs):
        """Refuses: Keras would skip the layers, and change nothing."""
        raise ValueError(
            f"Layers of keras_transformer cannot be quantized to {mode}; "
            "export the model with `python -m export.ctranslate2 "
            "--quantization=int8`, or exclude them with `filters`."
        )

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "d_model": self.d_model,
            "mask_zero": self.mask_zero,
            "output_bias": self.output_bias,
        }
