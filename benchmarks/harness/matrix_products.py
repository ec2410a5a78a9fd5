"""The matrix products of a training step, and how many FLOPs they are."""

import dataclasses

# A product, and in the backward step one for each of its factors.
_PRODUCTS_PER_STEP = 3

# Rows of the large square matrices.
_SQUARE = {"cpu": 2048, "gpu": 8192}


@dataclasses.dataclass(frozen=True)
class Product:
    """`count` products float [batch, m, k] @ [batch, k, n].

    Attributes:
        count: how often a forward pass makes it.
        batch: of matrices multiplied pair by pair; 1 for a plain product.
        m: rows of the left factor.
        k: columns of the left, rows of the right factor.
        n: columns of the right factor.
    """

    count: int
    batch: int
    m: int
    k: int
    n: int

    @property
    def flops(self):
        """FLOPs of one training step: forward and both gradients."""
        return (
            2
            * _PRODUCTS_PER_STEP
            * self.count
            * self.batch
            * self.m
            * self.k
            * self.n
        )


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
    d, n = config.d_model, config.num_layers
    source, target = rows * source_length, rows * target_length
    if with_logits is None:
        with_logits = target
    queries = config.num_heads * config.d_k
    values = config.num_heads * config.d_v
    sides = []
    for positions in (source, target):
        sides += [
            Product(n, 1, positions, d, 2 * queries + values),
            Product(n, 1, positions, values, d),
            Product(n, 1, positions, d, config.d_ff),
            Product(n, 1, positions, config.d_ff, d),
        ]
    return [
        *sides,
        Product(n, 1, target, d, queries),
        Product(n, 1, source, d, queries + values),
        Product(n, 1, target, values, d),
        Product(1, 1, with_logits, d, config.vocabulary_size),
    ]


def attention_products(config, rows, source_length, target_length):
    """Returns the products of queries, keys and values in a forward pass."""
    s, t = source_length, target_length
    products = []
    for queries, keys in ((s, s), (t, t), (t, s)):
        batch = rows * config.num_heads
        products += [
            Product(config.num_layers, batch, queries, config.d_k, keys),
            Product(config.num_layers, batch, queries, keys, config.d_v),
        ]
    return products


def step_products(config, rows, source_length, target_length):
    """Returns all matrix products of a forward pass."""
    sizes = (config, rows, source_length, target_length)
    return weight_products(*sizes) + attention_products(*sizes)


def flops(products):
    """Returns the FLOPs of a training step made of these products."""
    return sum(product.flops for product in products)


def model_work(job, batch):
    """Returns what is counted of a model: its products with weights."""
    return weight_products(*_sizes(job, batch))


def real_logits_work(job, batch):
    """Returns what is counted of our trainer's step."""
    return weight_products(*_sizes(job, batch), real_logits(job, batch))


def real_logits(job, batch):
    """Returns of how many positions our trainer makes logits; None for all.

    It makes none of padding where XLA is off, which is on CPUs.
    """
    return batch.target_tokens if job.device == "cpu" else None


def products_work(job, batch):
    """Returns all the products of a step, for the system that makes them."""
    return step_products(*_sizes(job, batch))


def square_work(job, batch):
    """Returns one product of large square matrices, whatever the batch."""
    del batch
    rows = _SQUARE[job.device]
    return [Product(1, 1, rows, rows, rows)]


def _sizes(job, batch):
    return job.config, *batch.source.shape, batch.target.shape[1]
