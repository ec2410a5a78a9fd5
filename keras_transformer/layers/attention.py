"""Attention: scaled dot-product and multi-head, section 3.2."""

import functools
import itertools

import keras
from keras import ops

from keras_transformer.kernels.layers import Dropout
from keras_transformer.kernels.projections import (
    join_few,
    join_heads,
    linear,
    split_few,
    split_heads,
)
from keras_transformer.layers.dot_product import scaled_dot_product_attention
from keras_transformer.layers.low_rank import LowRankAdaptation
from keras_transformer.layers.masks import (
    SelfMask,
    join_masks,
    standard_mask,
    with_heads,
)
from keras_transformer.layers.restricted import restricted_attention
from keras_transformer.layers.sequence_layer import (
    SequenceLayer,
    check_width,
    require_counts,
)

# Queries, keys and values begin smaller than Glorot has it, or deep post-norm
# stacks learn late (docs/measured/results.md). So it is in fairseq, and so
# it was in the authors' first code, where Glorot's rule met one matrix of all
# three.
_PROJECTION_VARIANCE = 0.5


@keras.saving.register_keras_serializable("keras_transformer")
class MultiHeadAttention(LowRankAdaptation, SequenceLayer):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_H) W^O (section 3.2.2).

    Letters: B batch, Q queries, M keys and values, H heads, D d_model.

    Called with one input it is self-attention, and queries, keys and values
    come from one fused product; called with a memory as well it attends to
    that memory, and keys and values come from one fused product. All but the
    output's matrix can be adapted by LoRA, as LowRankAdaptation says.

    Args:
        d_model: D, width of inputs and outputs.
        num_heads: H.
        d_k: width of each head's queries and keys.
        d_v: width of each head's values.
        dropout: probability of dropping an attention weight.
        use_bias: whether the four projections have biases.
        window: r of restricted self-attention (section 4): a position sees
            the r nearest ones on either side; 0 means all. Time and memory
            then grow with r and not with Q, unless the weights are wanted
            or a mask says for each query where it may attend.
        **kwargs: of `keras.layers.Layer`.

    Raises:
        ValueError: a memory is given to a layer with a window; or a width or
            a mask does not fit, or a number is out of range.

    Example:
        >>> layer = MultiHeadAttention(d_model=8, num_heads=2, d_k=4, d_v=4)
        >>> layer(keras.ops.ones((1, 3, 8))).shape
        TensorShape([1, 3, 8])
    """

    def __init__(
        self,
        d_model,
        num_heads,
        d_k,
        d_v,
        dropout=0.0,
        use_bias=True,
        window=0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.d_model = d_model
        self.num_heads = num_heads
        self.d_k = d_k
        self.d_v = d_v
        self.dropout = dropout
        self.use_bias = use_bias
        self.window = window
        require_counts(self, "d_model", "num_heads", "d_k", "d_v")
        if window:
            require_counts(self, "window")
        self.weight_dropout = Dropout(
            dropout, dtype=self.dtype_policy, name="weight_dropout"
        )

    def build(self, query_shape, memory_shape=None):
        """Makes the weights; with `memory_shape`, those of cross-attention."""
        self.require_width(query_shape)
        queries = self.num_heads * self.d_k
        values = self.num_heads * self.d_v
        if memory_shape is None:
            self._add_linear(
                "query_key_value", query_shape[-1], [queries, queries, values]
            )
        else:
            if self.window:
                raise ValueError("A window is for self-attention only.")
            check_width(self, memory_shape)
            self._add_linear("query", query_shape[-1], [queries])
            self._add_linear("key_value", memory_shape[-1], [queries, values])
        self._add_linear("output", values, [self.d_model], variance=1.0)
        self.built = True

    def _add_linear(self, name, inputs, blocks, variance=_PROJECTION_VARIANCE):
        kernel = self.add_weight(
            name=f"{name}_kernel",
            shape=(inputs, sum(blocks)),
            initializer=_glorot_blocks(blocks, variance),
        )
        bias = None
        if self.use_bias:
            bias = self.add_weight(
                name=f"{name}_bias",
                shape=(sum(blocks),),
                initializer="zeros",
            )
        setattr(self, f"{name}_kernel", kernel)
        setattr(self, f"{name}_bias", bias)

    def adaptable(self):
        """Returns the names of the matrices that LoRA adapts."""
        if hasattr(self, "key_value_kernel"):
            return ["query", "key_value"]
        return ["query_key_value"]

    def call(
        self,
        query,
        memory=None,
        attention_mask=None,
        training=False,
        return_weights=False,
        mask=None,
        query_mask=None,
        memory_mask=None,
    ):
        """Attends.

        Args:
            query: float [B, Q, D].
            memory: float [B, M, D_memory] to attend to; None for
                self-attention, where M = Q.
            attention_mask: boolean, True where a query may attend: [B, M],
                or broadcastable to [B, Q, M] or [B, H, Q, M]; of
                self-attention a SelfMask, too. None means everywhere.
            training: whether attention weights are dropped out.
            return_weights: also return the attention weights.
            mask: boolean [B, Q], Keras' own mask of the only input. Keras
                passes this and the next two, which join `attention_mask`.
            query_mask: the same where there are several inputs.
            memory_mask: boolean [B, M], Keras' own mask of `memory`.

        Returns:
            float [B, Q, D]; with `return_weights` a pair of that and float32
            [B, H, Q, M], as they are before dropout.
        """
        if (memory is None) == hasattr(self, "key_value_kernel"):
            raise ValueError(
                f"{self.name} was built for "
                f"{'self' if memory is not None else 'cross'}-attention; use "
                "another layer with a memory than without."
            )
        drop = functools.partial(self.weight_dropout, training=training)
        if memory is None:
            blocks = self._query_key_value(query)
            queries, keys, values = map(self._in_heads, blocks)
            given = SelfMask.of(attention_mask, query)
            mask = given.with_keys(mask, query_mask)
            if self.window and not return_weights:
                heads = restricted_attention(
                    queries, keys, values, mask, self.window, drop
                )
                return self._output(join_heads(heads))
            mask = mask.whole(ops.shape(query)[1], self.window)
        else:
            queries = split_heads(self._query(query), self.num_heads, query)
            keys, values = self.project_memory(memory)
            mask = join_masks(
                *(
                    standard_mask(each, query, memory)
                    for each in (attention_mask, memory_mask)
                )
            )
        heads, weights = scaled_dot_product_attention(
            queries, keys, values, mask, drop
        )
        outputs = self._output(join_heads(heads))
        return (outputs, weights) if return_weights else outputs

    def project(self, inputs):
        """Self-attention's queries, keys and values for decoding.

        They have no gradient (see `split_few`), and so with `project_query`
        and `attend`.

        Args:
            inputs: float [B, Q, D].

        Returns:
            float [B, H, Q, d_k], [B, H, Q, d_k] and [B, H, Q, d_v].
        """
        return [
            split_few(block, self.num_heads)
            for block in self._query_key_value(inputs)
        ]

    def project_query(self, query):
        """Cross-attention's queries: float [B, Q, D] to [B, H, Q, d_k]."""
        return split_few(self._query(query), self.num_heads)

    def project_memory(self, memory):
        """Cross-attention's keys and values, the same for every step.

        Args:
            memory: float [B, M, D_memory].

        Returns:
            float [B, H, M, d_k] and [B, H, M, d_v].
        """
        widths = self.d_k, self.d_v
        bias = self._without_key_gradient(self.key_value_bias, *widths)
        fused = self.adapted("key_value", memory, bias)
        blocks = self._split(fused, *widths)
        return [self._in_heads(block) for block in blocks]

    def attend(self, queries, keys, values, mask=None):
        """Attends over projected keys and values, such as cached ones.

        Args:
            queries: float [B, H, Q, d_k].
            keys: float [B, H, M, d_k].
            values: float [B, H, M, d_v].
            mask: boolean, as `attention_mask` of `call`.

        Returns:
            float [B, Q, D] and the weights, float32 [B, H, Q, M].
        """
        heads, weights = scaled_dot_product_attention(
            queries, keys, values, with_heads(mask)
        )
        return self._output(join_few(heads)), weights

    def _query_key_value(self, inputs):
        widths = self.d_k, self.d_k, self.d_v
        bias = self._without_key_gradient(self.query_key_value_bias, *widths)
        fused = self.adapted("query_key_value", inputs, bias)
        return self._split(fused, *widths)

    def _without_key_gradient(self, bias, *widths):
        """Returns a bias whose part for the keys gets no gradient.

        It adds the same to all scores of a query, which softmax ignores, so its
        gradient is 0. What would be computed is rounding noise, which Adam,
        dividing a gradient by its own size, would turn into whole steps.
        """
        if bias is None:
            return None
        *queries, keys, values = self._split(bias, *widths)
        return ops.concatenate([*queries, ops.stop_gradient(keys), values])

    def _query(self, query):
        return self.adapted("query", query, self.query_bias)

    def _output(self, joined):
        return linear(joined, self.output_kernel, self.output_bias)

    def _split(self, fused, *widths):
        # One split: of slices, each gets a gradient of the whole's size.
        if len(set(widths)) == 1:
            return ops.split(fused, len(widths), axis=-1)
        ends = itertools.accumulate(self.num_heads * each for each in widths)
        return ops.split(fused, list(ends)[:-1], axis=-1)

    def _in_heads(self, block):
        return split_heads(block, self.num_heads)

    def compute_output_shape(self, query_shape, memory_shape=None):
        """Returns the shape of the output."""
        del memory_shape
        return (*query_shape[:-1], self.d_model)

    def get_config(self):
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "num_heads": self.num_heads,
            "d_k": self.d_k,
            "d_v": self.d_v,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "window": self.window,
        }


def _glorot_blocks(widths, variance):
    """Returns an initializer for a matrix made of blocks side by side.

    Each block begins as Glorot-uniform on its own, so that fusing several
    projections into one matrix does not change how they begin.

    Args:
        widths: number of columns of each block.
        variance: factor on Glorot's variance.
    """

    def initialize(shape, dtype=None):
        blocks = [
            keras.initializers.VarianceScaling(variance, "fan_avg", "uniform")(
                (shape[0], width), dtype=dtype
            )
            for width in widths
        ]
        return ops.concatenate(blocks, axis=1)

    return initialize
