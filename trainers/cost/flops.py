"""Counts parameters, and the matrix products of a training step.

A product [m, k] @ [k, n] has 2 m k n FLOPs, and a training step computes three:
forward, and for the gradient of each factor.
"""

import dataclasses
import typing

from keras_transformer.layers.local_attention import block_size

EMBEDDINGS = "embeddings and softmax"
PROJECTIONS = "attention projections"
SCORES = "attention scores"
FEED_FORWARD = "feed-forward"
PARTS = (EMBEDDINGS, PROJECTIONS, SCORES, FEED_FORWARD)

PRODUCTS_PER_STEP = 3


class Matrix(typing.NamedTuple):
    """A weight matrix [rows, columns], and the one of PARTS it belongs to."""

    part: str
    rows: int
    columns: int


@dataclasses.dataclass(frozen=True)
class Product:
    """`count` products [batch, m, k] @ [batch, k, n] of a forward pass.

    `part` is one of PARTS, or empty.
    """

    count: int
    batch: int
    m: int
    k: int
    n: int
    part: str = ""

    @property
    def flops(self):
        """FLOPs of one training step: forward and both gradients."""
        forward = 2 * self.count * self.batch * self.m * self.k * self.n
        return PRODUCTS_PER_STEP * forward


def parameters_by_part(config):
    """Returns the number of trained parameters, a dict of part to int."""
    c = config
    d, heads = c.d_model, c.num_heads
    attention = 2 * d * heads * (c.d_k + c.d_v)
    if c.attention_bias:
        attention += heads * (2 * c.d_k + c.d_v) + d
    feed_forward = 2 * d * c.d_ff + c.d_ff + d
    encoder, decoder = c.num_layers, c.decoder_layers
    norms = 2 * encoder + 3 * decoder + 2 * (c.norm == "pre")
    rows = {
        "all": c.vocabulary_size,
        "target-softmax": c.encoder_vocabulary_size + c.vocabulary_size,
        "none": c.encoder_vocabulary_size + 2 * c.vocabulary_size,
    }[c.share_embeddings]
    if c.positions == "learned":
        rows += 2 * c.max_positions
    return {
        "embeddings": rows * d + c.vocabulary_size * c.output_bias,
        "attention": (encoder + 2 * decoder) * attention,
        "feed-forward": (encoder + decoder) * feed_forward,
        "layer norms": norms * 2 * d,
    }


def encoder_matrices(config):
    """Returns the matrices of an encoder layer, a list of Matrix."""
    d, queries, values = _widths(config)
    return [
        Matrix(PROJECTIONS, d, 2 * queries + values),
        Matrix(PROJECTIONS, values, d),
        Matrix(FEED_FORWARD, d, config.d_ff),
        Matrix(FEED_FORWARD, config.d_ff, d),
    ]


def decoder_matrices(config):
    """Returns the matrices of a decoder layer used at target positions."""
    d, queries, values = _widths(config)
    cross = [Matrix(PROJECTIONS, d, queries), Matrix(PROJECTIONS, values, d)]
    shared = encoder_matrices(config)
    return [*shared[:2], *cross, *shared[2:]]


def memory_matrix(config):
    """Returns a decoder layer's matrix of cross-attention keys and values."""
    d, queries, values = _widths(config)
    return Matrix(PROJECTIONS, d, queries + values)


def softmax_matrix(config):
    """Returns the pre-softmax matrix."""
    return Matrix(EMBEDDINGS, config.d_model, config.vocabulary_size)


def _widths(config):
    heads = config.num_heads
    return config.d_model, heads * config.d_k, heads * config.d_v


def weight_products(
    config, rows, source_length, target_length, with_logits=None
):
    """Returns a forward pass's products with weights, a list of Product.

    `with_logits` is the number of target positions with logits, by default all.
    """
    source, target = rows * source_length, rows * target_length
    if with_logits is None:
        with_logits = target
    stacks = (
        (config.num_layers, source, encoder_matrices(config)),
        (config.decoder_layers, source, [memory_matrix(config)]),
        (config.decoder_layers, target, decoder_matrices(config)),
        (1, with_logits, [softmax_matrix(config)]),
    )
    return [
        Product(layers, 1, positions, each.rows, each.columns, each.part)
        for layers, positions, matrices in stacks
        for each in matrices
    ]


def self_attention_blocks(length, window, causal):
    """Returns (blocks, queries of a block, keys that each query attends to)."""
    size = block_size(length, window) if window else length
    if size == length:
        return 1, length, length
    return -(-length // size), size, size + (1 if causal else 2) * window


def attention_products(config, rows, source_length, target_length):
    """Returns the products of queries, keys and values, masked ones too."""
    s, t = source_length, target_length
    window = config.attention_window
    products = []
    for layers, (blocks, queries, keys) in (
        (config.num_layers, self_attention_blocks(s, window, causal=False)),
        (config.decoder_layers, self_attention_blocks(t, window, causal=True)),
        (config.decoder_layers, (1, t, s)),
    ):
        batch = rows * config.num_heads * blocks
        products += [
            Product(layers, batch, queries, config.d_k, keys, SCORES),
            Product(layers, batch, queries, keys, config.d_v, SCORES),
        ]
    return products


def step_products(config, rows, source_length, target_length, with_logits=None):
    """Returns all products of a forward pass."""
    sizes = (config, rows, source_length, target_length)
    return weight_products(*sizes, with_logits) + attention_products(*sizes)


def flops(products):
    """Returns the FLOPs of a training step with these products."""
    return sum(product.flops for product in products)


def flops_by_part(products):
    """Returns the FLOPs of a training step, a dict by PARTS."""
    return {
        part: flops(each for each in products if each.part == part)
        for part in PARTS
    }
