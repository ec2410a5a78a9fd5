"""Counts the parameters and matrix products of a training step.

A product [m, k] @ [k, n] has 2 m k n FLOPs, and a training step computes three:
forward, and for the gradient of each factor.
"""

import dataclasses
import typing
from collections.abc import Iterable

from keras_transformer.config import TransformerConfig
from keras_transformer.layers.local_attention import block_size

EMBEDDINGS = "embeddings and softmax"
PROJECTIONS = "attention projections"
SCORES = "attention scores"
FEED_FORWARD = "feed-forward"
COMPONENTS = (EMBEDDINGS, PROJECTIONS, SCORES, FEED_FORWARD)

PRODUCTS_PER_STEP = 3


class Matrix(typing.NamedTuple):
    """A weight matrix [rows, columns] of one of the COMPONENTS."""

    component: str
    rows: int
    columns: int


@dataclasses.dataclass(frozen=True)
class Product:
    """`count` products [batch, m, k] @ [batch, k, n] of a forward pass."""

    count: int
    batch: float  # May be a mean, and so may m.
    m: float
    k: int
    n: int
    component: str  # One of the COMPONENTS.

    @property
    def flops(self) -> float:
        """FLOPs of one training step: forward and both gradients."""
        forward = 2 * self.count * self.batch * self.m * self.k * self.n
        return PRODUCTS_PER_STEP * forward


def parameters_by_component(config: TransformerConfig) -> dict[str, int]:
    """Returns the number of trained parameters, by component."""
    d, d_ff, d_k, d_v = config.d_model, config.d_ff, config.d_k, config.d_v
    attention = 2 * d * config.num_heads * (d_k + d_v)
    if config.attention_bias:
        attention += config.num_heads * (2 * d_k + d_v) + d
    feed_forward = 2 * d * d_ff + d_ff + d
    encoder, decoder = config.num_layers, config.decoder_layers
    norms = 2 * encoder + 3 * decoder + 2 * (config.norm == "pre")
    source, target = config.encoder_vocabulary_size, config.vocabulary_size
    rows = {
        "all": target,
        "target-softmax": source + target,
        "none": source + 2 * target,
    }[config.share_embeddings]
    if config.positions == "learned":
        rows += 2 * config.max_positions
    return {
        "embeddings": rows * d + target * config.output_bias,
        "attention": (encoder + 2 * decoder) * attention,
        "feed-forward": (encoder + decoder) * feed_forward,
        "layer norms": norms * 2 * d,
    }


def encoder_matrices(config: TransformerConfig) -> list[Matrix]:
    """Returns the matrices of an encoder layer."""
    d, queries, values = _projection_widths(config)
    return [
        Matrix(PROJECTIONS, d, 2 * queries + values),
        Matrix(PROJECTIONS, values, d),
        Matrix(FEED_FORWARD, d, config.d_ff),
        Matrix(FEED_FORWARD, config.d_ff, d),
    ]


def decoder_matrices(config: TransformerConfig) -> list[Matrix]:
    """Returns the matrices of a decoder layer used at target positions."""
    d, queries, values = _projection_widths(config)
    cross = [Matrix(PROJECTIONS, d, queries), Matrix(PROJECTIONS, values, d)]
    shared = encoder_matrices(config)
    return [*shared[:2], *cross, *shared[2:]]


def memory_matrix(config: TransformerConfig) -> Matrix:
    """Returns a decoder layer's matrix of cross-attention keys and values."""
    d, queries, values = _projection_widths(config)
    return Matrix(PROJECTIONS, d, queries + values)


def softmax_matrix(config: TransformerConfig) -> Matrix:
    """Returns the pre-softmax matrix."""
    return Matrix(EMBEDDINGS, config.d_model, config.vocabulary_size)


def _projection_widths(config):
    heads = config.num_heads
    return config.d_model, heads * config.d_k, heads * config.d_v


def weight_products(
    config: TransformerConfig,
    rows: float,
    source_length: int,
    target_length: int,
    logit_positions: float | None = None,
) -> list[Product]:
    """Returns a forward pass's products with weights.

    `logit_positions` is the number of target positions with logits; None: all.
    """
    source, target = rows * source_length, rows * target_length
    if logit_positions is None:
        logit_positions = target
    stacks = (
        (config.num_layers, source, encoder_matrices(config)),
        (config.decoder_layers, source, [memory_matrix(config)]),
        (config.decoder_layers, target, decoder_matrices(config)),
        (1, logit_positions, [softmax_matrix(config)]),
    )
    return [
        Product(layers, 1, positions, each.rows, each.columns, each.component)
        for layers, positions, matrices in stacks
        for each in matrices
    ]


def self_attention_blocks(
    length: int, window: int, causal: bool
) -> tuple[int, int, int]:
    """Returns (blocks, queries of a block, keys that each query attends to)."""
    size = block_size(length, window) if window else length
    if size == length:
        return 1, length, length
    return -(-length // size), size, size + (1 if causal else 2) * window


def attention_products(
    config: TransformerConfig,
    rows: float,
    source_length: int,
    target_length: int,
) -> list[Product]:
    """Returns the products of attention scores, masked ones included."""
    window = config.attention_window
    encoder = self_attention_blocks(source_length, window, causal=False)
    decoder = self_attention_blocks(target_length, window, causal=True)
    cross = 1, target_length, source_length
    products = []
    for layers, (blocks, queries, keys) in (
        (config.num_layers, encoder),
        (config.decoder_layers, decoder),
        (config.decoder_layers, cross),
    ):
        batch = rows * config.num_heads * blocks
        products += [
            Product(layers, batch, queries, config.d_k, keys, SCORES),
            Product(layers, batch, queries, keys, config.d_v, SCORES),
        ]
    return products


def step_products(
    config: TransformerConfig,
    rows: float,
    source_length: int,
    target_length: int,
    logit_positions: float | None = None,
) -> list[Product]:
    """Returns all products of a forward pass."""
    return weight_products(
        config, rows, source_length, target_length, logit_positions
    ) + attention_products(config, rows, source_length, target_length)


def flops(products: Iterable[Product]) -> float:
    """Returns the FLOPs of a training step with these products."""
    return sum(product.flops for product in products)


def flops_by_component(products: Iterable[Product]) -> dict[str, float]:
    """Returns the FLOPs of a training step, by component."""
    totals: dict[str, float] = dict.fromkeys(COMPONENTS, 0)
    for product in products:
        totals[product.component] += product.flops
    return totals
