"""Embeddings and the pre-softmax matrix: section 3.4."""

import math

import keras
from keras import ops

from keras_transformer.config import PAD_ID
from keras_transformer.kernels.projections import linear


@keras.saving.register_keras_serializable("keras_transformer")
class SharedEmbedding(keras.layers.Layer):
    """One matrix that embeds ids and, transposed, gives logits.

    Embeddings are multiplied by sqrt(d_model); the matrix begins with a
    standard deviation of d_model ** -0.5, so that they begin at unit scale.

    Args:
        vocabulary_size: V.
        d_model: D.
        mask_zero: whether the layers behind get Keras' mask of the ids that
            are not 0, as with `keras.layers.Embedding`.
        **kwargs: of `keras.layers.Layer`.
    """

    def __init__(self, vocabulary_size, d_model, mask_zero=False, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.d_model = d_model
        self.mask_zero = mask_zero
        self.supports_masking = mask_zero

    def build(self, input_shape=None):
        """Makes the matrix [V, D]."""
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocabulary_size, self.d_model),
            initializer=keras.initializers.RandomNormal(
                stddev=self.d_model**-0.5
            ),
            # Logits are a float32 product under every policy.
            autocast=False,
        )
        self.built = True

    def call(self, ids):
        """Embeds int32 [B, T] as float [B, T, D]."""
        embedded = ops.take(self.embeddings, ids, axis=0)
        embedded = ops.cast(embedded, self.compute_dtype)
        return embedded * math.sqrt(self.d_model)

    def compute_mask(self, ids, mask=None):
        """Returns True where an id is not 0: [B, T]; None without mask_zero."""
        return ops.not_equal(ids, PAD_ID) if self.mask_zero else None

    def logits(self, states):
        """Returns float32 [..., V] for float [..., D].

        The product runs in float32 under every dtype policy: a rounding of
        logits is a rounding of the loss.
        """
        return self.project(states, self.projection())

    def projection(self):
        """Returns the pre-softmax matrix, float32 [D, V]."""
        return ops.transpose(ops.cast(self.embeddings, "float32"))

    def project(self, states, projection):
        """Returns float32 [..., V] for float [..., D] and a `projection`.

        Those who take many small products with it transpose it only once.
        """
        return linear(ops.cast(states, "float32"), projection)

    def compute_output_shape(self, input_shape):
        """Returns the shape of the embedded ids."""
        return (*input_shape, self.d_model)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "d_model": self.d_model,
            "mask_zero": self.mask_zero,
        }
