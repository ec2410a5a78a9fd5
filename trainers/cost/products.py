"""The matrix products of a training step: which they are, and their FLOPs.

Letters: B rows, S and T positions of a row's source and target side, D
d_model, H heads, F d_ff, V the target's vocabulary. A product [m, k] @ [k, n]
is 2 m k n FLOPs. The backward pass makes two of each: the gradients of both
factors.
"""

import dataclasses
import typing

from keras_transformer.layers.local_attention import block_size

EMBEDDINGS = "embeddings and softmax"
PROJECTIONS = "attention projections"
SCORES = "attention scores"
FEED_FORWARD = "feed-forward"
PARTS = (EMBEDDINGS, PROJECTIONS, SCORES, FEED_FORWARD)

# A product, and in the backward step one for each of its factors.
PRODUCTS_PER_STEP = 3


class Matrix(typing.NamedTuple):
    """A matrix of weights that positions are multiplied with.

    Attributes:
        part: of PARTS.
        rows: width of what goes in.
        columns: width of what comes out.
    """

    part: str
    rows: int
    columns: int


@dataclasses.dataclass(frozen=True)
class Product:
    """`count` products float [batch, m, k] @ [batch, k, n].

    Attributes:
        count: how often a forward pass makes it.
        batch: of matrices multiplied pair by pair; 1 for a plain product.
        m: rows of the left factor.
        k: columns of the left, rows of the right factor.
        n: columns of the right factor.
        part: of PARTS, or nothing.
    """

    count: int
    batch: int
    m: int
    k: int
    n: int
    part: str = ""

    @property
    def forward_flops(self):
        """FLOPs of one forward pass."""
        return 2 * self.count * self.batch * self.m * self.k * self.n

    @property
    def flops(self):
        """FLOPs of one training step: forward and both gradients."""
        return PRODUCTS_PER_STEP * self.forward_flops


def encoder_matrices(config):
    """Returns the matrices of an encoder layer, a list of Matrix.

    Args:
        config: TransformerConfig, or what has its fields.
    """
    d, queries, values = _widths(config)
    return [
        Matrix(PROJECTIONS, d, 2 * queries + values),
        Matrix(PROJECTIONS, values, d),
        Matrix(FEED_FORWARD, d, config.d_ff),
        Matrix(FEED_FORWARD, config.d_ff, d),
    ]


def decoder_matrices(config):
    """Returns those of a decoder layer that target positions go through."""
    d, queries, values = _widths(config)
    shared = encoder_matrices(config)
    cross = [Matrix(PROJECTIONS, d, queries), Matrix(PROJECTIONS, values, d)]
    return [*shared[:2], *cross, *shared[2:]]


def memory_matrix(config):
    """Returns what a decoder layer makes keys and values of the memory with."""
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
    """Returns the products with a weight matrix in one forward pass.

    Their FLOPs are 6 for each weight and each position it is used at: the
    encoder and the decoder's keys and values of it at source positions, the
    rest of the decoder and the pre-softmax matrix at target positions.
    Biases, norms and looking up embeddings are not counted.

    Args:
        config: TransformerConfig.
        rows: B, sentences.
        source_length: S, positions of a source row, padding counted.
        target_length: T.
        with_logits: target positions that logits are made of; None for all.

    Returns:
        List of Product.
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


class Blocks(typing.NamedTuple):
    """What self-attention over the positions of a row is computed in.

    Attributes:
        count: of blocks.
        queries: of a block.
        keys: that each of them is computed with.
    """

    count: int
    queries: int
    keys: int


def self_attention_blocks(length, window, causal):
    """Returns the blocks of self-attention, restricted or not (section 4).

    Args:
        length: n, positions of a row.
        window: r; 0 for no restriction.
        causal: whether positions see none to the right.

    Returns:
        Blocks; one where every query is computed with every key.
    """
    size = block_size(length, window) if window else length
    if size == length:
        return Blocks(1, length, length)
    beside = window if causal else 2 * window
    return Blocks(-(-length // size), size, size + beside)


def attention_products(config, rows, source_length, target_length):
    """Returns the products of queries, keys and values in a forward pass.

    Queries meet the keys of their block and of those beside it, as
    `attention_window` has it, or all of their row, masked ones as well.
    """
    s, t = source_length, target_length
    window = config.attention_window
    products = []
    for layers, (blocks, queries, keys) in (
        (config.num_layers, self_attention_blocks(s, window, causal=False)),
        (config.decoder_layers, self_attention_blocks(t, window, causal=True)),
        (config.decoder_layers, Blocks(1, t, s)),
    ):
        batch = rows * config.num_heads * blocks
        products += [
            Product(layers, batch, queries, config.d_k, keys, SCORES),
            Product(layers, batch, queries, keys, config.d_v, SCORES),
        ]
    return products


def step_products(config, rows, source_length, target_length, with_logits=None):
    """Returns all matrix products of a forward pass; see `weight_products`."""
    sizes = (config, rows, source_length, target_length)
    return weight_products(*sizes, with_logits) + attention_products(*sizes)


def flops(products):
    """Returns the FLOPs of a training step made of these products."""
    return sum(product.flops for product in products)


def flops_by_part(products):
    """Returns the FLOPs of a training step, a dict of each of PARTS."""
    return {
        part: flops(each for each in products if each.part == part)
        for part in PARTS
    }
