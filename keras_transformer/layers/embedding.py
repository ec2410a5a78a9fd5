"""Embeddings, the pre-softmax product and positions: sections 3.4 and 3.5."""

import math
import typing

import keras
import numpy as np
from keras import ops

from keras_transformer.config import PAD_ID, validate_choice
from keras_transformer.ids import arange, as_ids, bound_ids, look_up
from keras_transformer.kernels import at_least_float32, linear
from keras_transformer.layers.base import (
    Projection,
    SequenceLayer,
    normal_initializer,
    validate_counts,
)
from keras_transformer.types import Shape, Tensor, TensorLike

# Rows of the two tables of sinusoids: position = _FINE * coarse + fine.
_FINE = 128
_COARSE = 128


@keras.saving.register_keras_serializable("keras_transformer")
class SharedEmbedding(SequenceLayer):
    """One matrix that embeds ids and, transposed, computes logits.

    Embeddings are multiplied by sqrt(d_model); the matrix is initialized with
    standard deviation d_model^-0.5, so that they begin at unit scale. For ids
    outside the vocabulary see `look_up`. With `mask_zero`, id 0 is masked for
    later layers, as in `keras.layers.Embedding`.
    """

    config_names = "vocabulary_size", "d_model", "mask_zero", "output_bias"

    def __init__(
        self,
        vocabulary_size: int,
        d_model: int,
        mask_zero: bool = False,
        output_bias: bool = False,
        **kwargs: typing.Any,
    ):
        super().__init__(**kwargs)
        # Autocast would round ids given as floats.
        self.autocast = False
        self.vocabulary_size = vocabulary_size
        self.d_model = d_model
        self.mask_zero = mask_zero
        self.output_bias = output_bias
        self.supports_masking = mask_zero
        validate_counts(self, "vocabulary_size", "d_model")

    def build(self, input_shape: Shape | None = None) -> None:
        """Creates the matrix [V, D], and any bias [V]."""
        # Without autocast, since logits are float32 under every policy.
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocabulary_size, self.d_model),
            initializer=normal_initializer(self.d_model**-0.5),
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

    def call(self, ids: TensorLike) -> Tensor:
        """Embeds ids [B, T], of any numeric dtype, as float [B, T, D]."""
        return look_up(
            self.embeddings,
            as_ids(ids),
            "id",
            scale=math.sqrt(self.d_model),
            dtype=self.compute_dtype,
        )

    def compute_mask(
        self, ids: TensorLike, mask: TensorLike | None = None
    ) -> Tensor | None:
        """Returns True where an id is not 0: [B, T]; None without mask_zero."""
        return ops.not_equal(as_ids(ids), PAD_ID) if self.mask_zero else None

    def logits(
        self, states: Tensor, projection: Tensor | None = None
    ) -> Tensor:
        """Returns logits, float32 [..., V], for states, float [..., D].

        The product runs in float32 under every dtype policy but float64, since
        rounded logits mean a rounded loss. `projection` is the result of
        `projection()`, if already computed.
        """
        if projection is None:
            projection = self.projection()
        return linear(at_least_float32(states), projection, self.bias)

    def projection(self) -> Tensor:
        """Returns the matrix that `logits` multiplies by, float32 [D, V]."""
        return ops.transpose(at_least_float32(self.embeddings))

    def output_matrix(self, ids: Tensor | None = None) -> Tensor:
        """Returns a row per token: its embedding and, if any, its bias.

        The rows are float32 [V, D] or [V, D + 1], or those of int32 [...] ids.
        Logits are `append_bias_input(states)` times their transpose.
        """

        def select_rows(weight):
            if ids is not None:
                weight = ops.take(weight, ids, axis=0)
            return ops.cast(weight, "float32")

        matrix = select_rows(self.embeddings)
        if self.bias is None:
            return matrix
        bias = select_rows(self.bias)[..., None]
        return ops.concatenate([matrix, bias], axis=-1)

    def new_projection(self, output_matrix: np.ndarray) -> Projection:
        """Returns a Projection of states to logits of some tokens.

        `output_matrix` is an array with a row per token, as the method.
        """
        projection = Projection(
            [len(output_matrix)],
            use_bias=self.bias is not None,
            trainable=False,
            dtype="float32",
        )
        projection.build((None, self.d_model))
        projection.kernel.assign(output_matrix[:, : self.d_model].T)
        if self.bias is not None:
            projection.bias.assign(output_matrix[:, -1])
        return projection

    def append_bias_input(self, states: Tensor) -> Tensor:
        """Casts to float32; appends a 1 to multiply any bias of a row."""
        states = ops.cast(states, "float32")
        if self.bias is None:
            return states
        return ops.concatenate([states, ops.ones_like(states[..., :1])], -1)

    def compute_output_shape(self, input_shape: Shape) -> Shape:  # type: ignore[override]
        """Returns the shape of the embedded ids."""
        return (*input_shape, self.d_model)


class PositionLayer(SequenceLayer):
    """Adds vectors; a known position beyond the last raises ValueError."""

    max_positions = _FINE * _COARSE

    def __init__(self, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(
        self, inputs: Tensor, positions: TensorLike | None = None
    ) -> Tensor:
        """Adds a vector for each position, int32 [B or 1, T], to [B, T, D]."""
        vectors = self.encode(self.resolve_positions(inputs, positions))
        return inputs + ops.cast(vectors, inputs.dtype)

    def encode(self, positions: Tensor) -> Tensor:
        """Returns vectors, float [..., D], of int32 [...] positions."""
        raise NotImplementedError

    def resolve_positions(
        self, inputs: Tensor, positions: TensorLike | None
    ) -> Tensor:
        """Returns positions as int32 [B or 1, T], 0 to T - 1 by default."""
        if positions is None:
            # Packed rows pass positions, and may be longer than the table.
            length = inputs.shape[1]
            if isinstance(length, int) and length > self.max_positions:
                raise ValueError(
                    f"A sequence must have at most max_positions="
                    f"{self.max_positions} positions, not {length}; shorten "
                    "it, or raise max_positions."
                )
            positions = ops.expand_dims(arange(ops.shape(inputs)[1]), 0)
        return as_ids(positions)


@keras.saving.register_keras_serializable("keras_transformer")
class SinusoidalPositionEncoding(PositionLayer):
    """Adds the sine and cosine of position / 10000^(2i/D) at 2i and 2i+1.

    An angle computed in float32 is off by 1e-4 at position 1,000. So the
    addition theorem combines two exact tables, up to position 16,383. An odd
    width raises ValueError. With rates="marian" the rates are
    10000^(-i/(D/2-1)), as in Marian and tensor2tensor. With "fairseq" also the
    first position is 2, after that of padding. A built layer has its
    `frequencies`, float64 [D/2], and its `first_position`.
    """

    config_names = ("rates",)

    def __init__(self, rates: str = "paper", **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.rates = validate_choice(
            "rates", rates, ("paper", "marian", "fairseq")
        )

    def build(self, input_shape: Shape) -> None:
        """Creates the tables for [B, T, D]; there are no weights."""
        self.require_width(input_shape)
        width: typing.Any = input_shape[-1]
        pairs, odd = divmod(width, 2)
        divisor = pairs if self.rates == "paper" else pairs - 1
        if odd or not divisor:
            even = "even" if self.rates == "paper" else "even, above 2"
            raise ValueError(
                f"The width of sinusoids must be {even}, not {width}."
            )
        self.frequencies = 10000.0 ** (-np.arange(pairs) / divisor)
        self.first_position = 2 if self.rates == "fairseq" else 0
        fine = self.first_position + np.arange(_FINE)
        self._fine = fine[:, None] * self.frequencies
        coarse = _FINE * np.arange(_COARSE)[:, None] * self.frequencies
        # One more, for positions beyond the last.
        self._coarse = np.pad(coarse, ((0, 1), (0, 0)), constant_values=np.nan)
        self.built = True

    def encode(self, positions: Tensor) -> Tensor:
        """Encodes int32 [...] positions as float32 [..., D]."""
        positions, is_inside = bound_ids(
            positions, self.max_positions, "position"
        )
        coarse = positions // _FINE
        # Beyond its table, where a kernel can raise an error.
        fine = ops.where(is_inside, positions % _FINE, _FINE)
        sin_fine, cos_fine = _sin_and_cos(self._fine, fine)
        sin_coarse, cos_coarse = _sin_and_cos(self._coarse, coarse)
        sin = sin_coarse * cos_fine + cos_coarse * sin_fine
        cos = cos_coarse * cos_fine - sin_coarse * sin_fine
        pairs = ops.stack([sin, cos], axis=-1)
        width = 2 * self._fine.shape[1]
        return ops.reshape(pairs, (*ops.shape(positions), width))


def _sin_and_cos(angles, rows):
    tables = [
        ops.convert_to_tensor(function(angles), "float32")
        for function in (np.sin, np.cos)
    ]
    return [ops.take(table, rows, axis=0) for table in tables]


@keras.saving.register_keras_serializable("keras_transformer")
class LearnedPositionEmbedding(PositionLayer):
    """Adds a learned vector for each of `max_positions` (Table 3, row E)."""

    config_names = ("max_positions",)

    def __init__(self, max_positions: int, **kwargs: typing.Any):
        super().__init__(**kwargs)
        self.max_positions = max_positions
        validate_counts(self, "max_positions")

    def build(self, input_shape: Shape) -> None:
        """Creates the table for [B, T, D]."""
        self.require_width(input_shape)
        width: typing.Any = input_shape[-1]
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.max_positions, width),
            initializer=normal_initializer(width**-0.5),
        )
        self.built = True

    def encode(self, positions: Tensor) -> Tensor:
        """Embeds int32 [...] positions as float [..., D]."""
        return look_up(self.embeddings, positions, "position")
