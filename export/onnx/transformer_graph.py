"""The layers of a Transformer as ONNX operators: section 3.

States are rows, so that each product is one Gemm. Letters: B sentences, S
source length, Q queries, M keys, D width, H heads, V vocabulary.
"""

import math
import typing
from collections.abc import Callable, Sequence

import numpy as np
from keras import ops

from export.onnx.graph import DOUBLE, FLOAT, Graph, Value
from keras_transformer.config import PAD_ID, UNKNOWN_ID
from keras_transformer.decoding.output_vocabulary import FixedVocabulary
from keras_transformer.types import TransformerLike

_MASKED_SCORE = -1e9
# Sums of two products of a byte and 127 exceed the 16 bits that processors with
# AVX2, but without VNNI, have for them; this costs no measured quality.
_MAX_INT8 = 63


class TransformerGraph:
    """Adds the layers of a Transformer to a Graph.

    With `quantization` "int8" matrices are stored as bytes, with a scale for
    each column, and inputs of their products are rounded to bytes of one scale.
    With a `subset`, a FixedVocabulary, the decoder reads and generates its
    local ids, below `vocabulary_size`.
    """

    def __init__(
        self,
        graph: Graph,
        model: TransformerLike,
        quantization: str | None,
        subset: FixedVocabulary | None = None,
    ):
        self.graph, self.config = graph, model.config
        self._model, self._is_int8 = model, quantization == "int8"
        self._target_ids = np.arange(model.config.vocabulary_size)
        self._subset = None
        if subset is not None:
            self._target_ids = subset.ids
            self._subset = subset.output_layer(model)
        self.vocabulary_size = len(self._target_ids)
        self._derived: dict[tuple, typing.Any] = {}

    def encode(self, ids: Value, mask: Value) -> Value:
        """Returns the encoder's output [B * S, D] for ids, int64 [B, S]."""
        model, length = self._model, ids.size(1)
        positions = self.graph.op("Range", 0, length[0], 1)
        table = self._store(model.source_embedding, "embeddings")
        states = self._embed(ids, table, positions, model.source_positions)
        for layer in model.encoder.layers:
            attention, residual = (
                layer.self_attention,
                layer.self_attention_residual,
            )
            heads = self._heads(
                attention.query_key_value,
                self._normalize_input(residual, states),
                length,
                has_queries=True,
            )
            queries, keys, values = heads
            joined, _ = self.attend(queries, keys, values, length, mask)
            joined = self._project(attention.output_projection, joined)
            states = self._add(residual, states, joined)
            states = self._feed_forward(layer, states)
        return self._normalize_output(model.encoder, states)

    def mask_padding(self, ids: Value) -> Value:
        """Returns the summand of the scores of ids: float [B, 1, 1, S]."""
        is_padding = self.graph.equal(ids, PAD_ID).cast(FLOAT)
        return self.graph.op("Unsqueeze", is_padding * _MASKED_SCORE, [1, 2])

    def project_memory(self, memory: Value, length: Value) -> list[list[Value]]:
        """Returns the keys and values [B, H, S, d] of each layer."""
        return [
            self._heads(layer.cross_attention.key_value, memory, length)
            for layer in self._model.decoder.layers
        ]

    def decode(
        self,
        ids: Value,
        positions: Value,
        lengths: tuple[typing.Any, typing.Any],
        attend: Callable[[int, Sequence[Value]], Value],
        memory: Sequence[Sequence[Value]],
        memory_mask: Value,
    ) -> tuple[Value, list[Value]]:
        """Returns the decoder's output and the weights of cross-attention.

        They are float [N, D] and, for each layer, [B, H, Q, S], for N ids,
        int64 of any shape, and their int64 positions, broadcastable to it.
        `lengths` are Q in self-attention and in cross-attention; `attend` is a
        function of a layer's index, and of its queries, keys and values, that
        returns the joined heads of self-attention.
        """
        model = self._model
        table = self._target_rows(model.target_embedding, "embeddings")
        states = self._embed(ids, table, positions, model.target_positions)
        scores = []
        for index, layer in enumerate(model.decoder.layers):
            attention, residual = (
                layer.self_attention,
                layer.self_attention_residual,
            )
            heads = self._heads(
                attention.query_key_value,
                self._normalize_input(residual, states),
                lengths[0],
                has_queries=True,
            )
            joined = attend(index, heads)
            joined = self._project(attention.output_projection, joined)
            states = self._add(residual, states, joined)
            attention, residual = (
                layer.cross_attention,
                layer.cross_attention_residual,
            )
            (queries,) = self._heads(
                attention.query,
                self._normalize_input(residual, states),
                lengths[1],
                has_queries=True,
            )
            keys, values = memory[index]
            joined, weights = self.attend(
                queries, keys, values, lengths[1], memory_mask
            )
            joined = self._project(attention.output_projection, joined)
            states = self._add(residual, states, joined)
            states = self._feed_forward(layer, states)
            scores.append(weights)
        return self._normalize_output(model.decoder, states), scores

    def logits(self, states: Value) -> Value:
        """Returns logits, float32 [N, V], for states [N, D]."""
        if self._subset is not None:
            return self._subset_logits(states)
        embedding = self._model.output_embedding
        return self._multiply(
            states,
            self._store(embedding, "embeddings"),
            self._store(embedding, "bias"),
            rows_are_outputs=True,
        )

    def _subset_logits(self, states):
        """Returns the logits of FixedOutputLayer."""
        logits = self._project(self._subset.projection, states)
        if self._model.output_embedding.bias is not None:
            ones = self.graph.full(1.0, states.size(0), 1)
            states = self.graph.concat(states, ones, axis=1)
        estimate = self._subset.excluded
        # See ExcludedTokensEstimate.spread.
        covariance = np.asarray(ops.convert_to_numpy(estimate.weights[1]))
        variance = states * self.graph.op("Gemm", states, covariance)
        variance = self.graph.op("ReduceSum", variance, [1])
        variance = self.graph.op("Max", variance, 0.0)
        limit = 2 * estimate.log_count
        spread = self.graph.where(
            variance < limit,
            variance * 0.5 + estimate.log_count,
            self.graph.op("Sqrt", variance * limit),
        )
        is_unknown = np.arange(self.vocabulary_size) == UNKNOWN_ID
        return logits + spread * is_unknown.astype(np.float32)

    def attend(
        self,
        queries: Value,
        keys: Value,
        values: Value,
        length: typing.Any,
        mask: Value | None = None,
    ) -> tuple[Value, Value]:
        """Returns joined heads [B * Q, H * d_v] and weights [B, H, Q, M].

        `length` is Q. The queries are scaled already; `mask` is added to their
        scores.
        """
        scores = self.graph.op("MatMul", queries, keys.transpose(0, 1, 3, 2))
        if mask is not None:
            scores += mask
        weights = self.graph.op("Softmax", scores, axis=-1)
        heads = self.graph.op("MatMul", weights, values)
        if length != 1:
            heads = heads.transpose(0, 2, 1, 3)
        width = self.config.num_heads * self.config.d_v
        return self.graph.reshape(heads, -1, width), weights

    def _heads(self, projection, states, length, has_queries=False):
        """Returns each output of a Projection as [B, H, Q, d].

        `states` are [B * Q, D]. If the first are queries, they are scaled.
        """
        graph, count = self.graph, self.config.num_heads
        kernel, bias = self._arrays(projection, has_queries)
        block = self._multiply(states, kernel, bias)
        widths, blocks = projection.widths, [block]
        if len(widths) > 1:
            blocks = graph.op(
                "Split", block, widths, outputs=len(widths), axis=-1
            )
        heads = []
        for block, width in zip(blocks, widths):
            if length == 1:
                heads.append(graph.reshape(block, -1, count, 1, width // count))
            else:
                block = graph.reshape(block, -1, length, count, width // count)
                heads.append(block.transpose(0, 2, 1, 3))
        return heads

    def _feed_forward(self, layer, states):
        network, residual = layer.feed_forward, layer.feed_forward_residual
        inner = self._normalize_input(residual, states)
        inner = self._project(network.inner_projection, inner)
        inner = self._activate(inner)
        outputs = self._project(network.output_projection, inner)
        return self._add(residual, states, outputs)

    def _activate(self, values):
        if self.config.activation == "relu":
            return self.graph.op("Relu", values)
        if self.config.activation == "silu":
            return values * self.graph.op("Sigmoid", values)
        return values * 0.5 * (self.graph.op("Erf", values * 0.5**0.5) + 1.0)

    def _normalize_input(self, residual, states):
        """Returns the input of a sub-layer; see ResidualConnection."""
        if not residual.normalize_first:
            return states
        return self._normalize(residual.layer_norm, states)

    def _add(self, residual, states, outputs):
        """Adds the outputs of a sub-layer to its inputs."""
        total = states + outputs
        if residual.normalize_first:
            return total
        return self._normalize(residual.layer_norm, total)

    def _normalize_output(self, stack, states):
        if stack.final_norm is None:
            return states
        return self._normalize(stack.final_norm, states)

    def _normalize(self, norm, states):
        return self.graph.op(
            "LayerNormalization",
            states,
            self._store(norm, "gamma"),
            self._store(norm, "beta"),
            epsilon=self.config.layer_norm_epsilon,
        )

    def _embed(self, ids, table, positions, layer):
        """Returns rows of embeddings with their positions: [N, D]."""
        graph, width = self.graph, self.config.d_model
        if self._is_int8:
            integers, scale = self._quantize(table, axis=1)
            states = graph.op("Gather", integers, ids).cast(FLOAT)
            states *= graph.op("Gather", scale, ids)[..., None]
        else:
            states = graph.op("Gather", table, ids)
        states = states * math.sqrt(width)
        states += self._encode_positions(layer, positions)
        return graph.reshape(states, -1, width)

    def _encode_positions(self, layer, positions):
        """Encodes int64 [...] positions as float [..., D]."""
        graph = self.graph
        if self.config.positions == "learned":
            return graph.op(
                "Gather", self._store(layer, "embeddings"), positions
            )
        # In float64, as angles of late positions need it. A cosine is the sine
        # of a quarter turn more.
        rates = np.repeat(layer.frequencies, 2)
        shifts = np.tile([0, math.pi / 2], len(layer.frequencies))
        shifts += layer.first_position * rates
        angles = positions.cast(DOUBLE)[..., None] * rates + shifts
        return graph.op("Sin", angles).cast(FLOAT)

    def _project(self, projection, states):
        return self._multiply(states, *self._arrays(projection))

    def _multiply(self, states, kernel, bias, rows_are_outputs=False):
        """Returns states [N, n] times a kernel [n, m] or [m, n]: [N, m]."""
        graph = self.graph
        if not self._is_int8:
            biases = [] if bias is None else [bias]
            return graph.op(
                "Gemm", states, kernel, *biases, transB=int(rows_are_outputs)
            )
        axis = int(rows_are_outputs)
        integers, scale = self._quantize(kernel, axis)
        if rows_are_outputs:
            integers = self._derive("transposed", integers, _transpose)
        inputs, input_scale, zero = graph.op(
            "DynamicQuantizeLinear", states, outputs=3
        )
        product = graph.op("MatMulInteger", inputs, integers, zero).cast(FLOAT)
        product *= graph.value(scale) * input_scale
        return product if bias is None else product + bias

    def _quantize(self, matrix, axis):
        """Returns int8 values, and the scale of each column or row."""

        def quantize(matrix):
            scale = np.maximum(np.abs(matrix).max(axis), 1e-9) / _MAX_INT8
            rounded = np.rint(matrix / np.expand_dims(scale, axis))
            return rounded.astype(np.int8), scale.astype(np.float32)

        return self._derive("int8", matrix, quantize)

    def _arrays(self, projection, scales_queries=False):
        """Returns the kernel and the bias, or None, of a Projection."""
        arrays = [self._store(projection, name) for name in ("kernel", "bias")]
        if not scales_queries:
            return arrays
        count = projection.widths[0]

        def scale(array):
            scaled = array.copy()
            scaled[..., :count] *= self.config.d_k**-0.5
            return scaled

        return [self._derive("scaled", array, scale) for array in arrays]

    def _target_rows(self, layer, name):
        """Returns a weight's rows of the target's tokens; None for None."""
        array = self._store(layer, name)
        if array is None or len(self._target_ids) == len(array):
            return array
        return self._derive("rows", array, lambda all: all[self._target_ids])

    def _store(self, layer, name):
        """Returns a weight as float32, the same array at each call, or None."""

        def convert(layer):
            weight = getattr(layer, name)
            if weight is None:
                return None
            return np.asarray(ops.convert_to_numpy(weight), np.float32)

        return self._derive(name, layer, convert)

    def _derive(self, kind, origin, function):
        """Returns a function's result, the same object at each call."""
        if origin is None:
            return None
        key = kind, id(origin)
        if key not in self._derived:
            # With the origin, so that no other object gets its id.
            self._derived[key] = function(origin), origin
        return self._derived[key][0]


def _transpose(matrix):
    return np.ascontiguousarray(matrix.T)
