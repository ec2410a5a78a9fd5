"""The matrix products of a Transformer: of a training step, of decoding."""

import dataclasses

# A product, and in the backward step one for each of its factors.
_PRODUCTS_PER_STEP = 3
_BYTES = {"float32": 4, "bfloat16": 2}


def encoder_shapes(config):
    """Returns the matrices that every source position is multiplied with.

    Args:
        config: fields of a TransformerConfig, a dict.

    Returns:
        List of (rows, columns): those of the encoder, then those of the
        decoder's keys and values of the encoder's output.
    """
    of_encoder = config["num_layers"] * _encoder_layer(config)
    return of_encoder + decoder_layers(config) * [_memory(config)]


def step_shapes(config):
    """Returns the matrices that every target position is multiplied with.

    Args:
        config: fields of a TransformerConfig, a dict.

    Returns:
        List of (rows, columns): those of the decoder, then the pre-softmax
        matrix.
    """
    of_decoder = decoder_layers(config) * _decoder_layer(config)
    return [*of_decoder, _logits(config)]


def decoder_layers(config):
    """Returns the decoder's number of layers, of fields as a dict."""
    return config["num_decoder_layers"] or config["num_layers"]


def _encoder_layer(config):
    d, queries, values = _widths(config)
    return [
        (d, 2 * queries + values),
        (values, d),
        (d, config["d_ff"]),
        (config["d_ff"], d),
    ]


def _decoder_layer(config):
    d, queries, values = _widths(config)
    shared = _encoder_layer(config)
    return [*shared[:2], (d, queries), (values, d), *shared[2:]]


def _memory(config):
    """Keys and values of the encoder's output, in a layer of the decoder."""
    d, queries, values = _widths(config)
    return d, queries + values


def _logits(config):
    return config["d_model"], config["vocabulary_size"]


def _widths(config):
    heads = config["num_heads"]
    return config["d_model"], heads * config["d_k"], heads * config["d_v"]


def step_bytes(config, precision):
    """Returns how many bytes of weights a decoder step reads."""
    weights = sum(rows * columns for rows, columns in step_shapes(config))
    return _BYTES[precision] * weights


def live_rows(target_lengths, beam_size):
    """Returns how many rows a decoder step has, and for how many steps.

    A sentence that is finished has none.

    Args:
        target_lengths: list of int, of a batch's translations.
        beam_size: K.

    Returns:
        List of (rows, steps), in order.
    """
    runs, done = [], 0
    for number, length in enumerate(sorted(target_lengths)):
        if length > done:
            rows = beam_size * (len(target_lengths) - number)
            runs.append((rows, length - done))
            done = length
    return runs


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
    fields = dataclasses.asdict(config)
    source, target = rows * source_length, rows * target_length
    if with_logits is None:
        with_logits = target
    stacks = (
        (config.num_layers, source, _encoder_layer(fields)),
        (config.decoder_layers, source, [_memory(fields)]),
        (config.decoder_layers, target, _decoder_layer(fields)),
    )
    return [
        *(
            Product(layers, 1, positions, *shape)
            for layers, positions, shapes in stacks
            for shape in shapes
        ),
        Product(1, 1, with_logits, *_logits(fields)),
    ]


def attention_products(config, rows, source_length, target_length):
    """Returns the products of queries, keys and values in a forward pass."""
    s, t = source_length, target_length
    products = []
    encoder, decoder = config.num_layers, config.decoder_layers
    for layers, queries, keys in (
        (encoder, s, s),
        (decoder, t, t),
        (decoder, t, s),
    ):
        batch = rows * config.num_heads
        products += [
            Product(layers, batch, queries, config.d_k, keys),
            Product(layers, batch, queries, keys, config.d_v),
        ]
    return products


def step_products(config, rows, source_length, target_length):
    """Returns all matrix products of a forward pass."""
    sizes = (config, rows, source_length, target_length)
    return weight_products(*sizes) + attention_products(*sizes)


def flops(products):
    """Returns the FLOPs of a training step made of these products."""
    return sum(product.flops for product in products)
