"""Parameters, and the memory of a training step by part.

Bytes of weights, moments and gradients are exact. Those of activations are
counted from what the formulas of a layer need again in the backward pass; a
compiler may keep less by computing something twice, and needs room for what
it is about to compute. Letters as in `trainers.cost.flops`.
"""

import math
import typing

from trainers.cost.flops import self_attention_blocks

PRECISIONS = ("float32", "mixed_bfloat16")

_FLOAT32 = 4
_BFLOAT16 = 2
# How many arrays of the logits' size a step has at once: logits and softmax;
# where XLA compiles it twice as many, by what XLA says of it
# (docs/measured/scaling.md).
UNCOMPILED_LOGITS = 2
COMPILED_LOGITS = 4
# A dropout's mask.
_MASK = 1
_GIB = 2**30

# Assumed: what driver, libraries and framework take of a GPU, and which share
# of the rest can be filled before an allocator finds no room in one piece.
RESERVE_BYTES = 1 * _GIB
FILLED = 0.9


class Shape(typing.NamedTuple):
    """What a device works on at once, in one pass.

    Attributes:
        rows: B, which may be a mean and so no whole number.
        source_length: S, positions of a row.
        target_length: T.
        with_logits: target positions that logits are made of.
    """

    rows: float
    source_length: int
    target_length: int
    with_logits: float

    def scaled(self, factor):
        """Returns the shape of so many times the rows."""
        return self._replace(
            rows=self.rows * factor, with_logits=self.with_logits * factor
        )


def parameters_by_part(config):
    """Returns the trained numbers, a dict of part to int.

    Args:
        config: TransformerConfig.
    """
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
        "target-softmax": c.source_pieces + c.vocabulary_size,
        "none": c.source_pieces + 2 * c.vocabulary_size,
    }[c.share_embeddings]
    if c.positions == "learned":
        rows += 2 * c.max_positions
    biases = c.vocabulary_size * c.output_bias
    return {
        "embeddings": rows * d + biases,
        "attention": (encoder + 2 * decoder) * attention,
        "feed-forward": (encoder + decoder) * feed_forward,
        "layer norms": norms * 2 * d,
    }


def count_parameters(config):
    """Returns the number of trained numbers."""
    return sum(parameters_by_part(config).values())


def compute_bytes(precision):
    """Returns the bytes of an activation: 4, or 2 in mixed_bfloat16."""
    return _BFLOAT16 if precision == "mixed_bfloat16" else _FLOAT32


def kept_bytes(config, shape, precision, logits_arrays=UNCOMPILED_LOGITS):
    """Returns what a pass keeps until its gradients are made: an estimate.

    Args:
        config: TransformerConfig.
        shape: Shape.
        precision: of PRECISIONS.
        logits_arrays: how many of the logits' size are there at once.

    Returns:
        A dict of float: `activations` of the stacks, and `logits and
        softmax`, which are float32 in both precisions.
    """
    width = compute_bytes(precision)
    source = shape.rows * shape.source_length
    target = shape.rows * shape.target_length
    s, t = shape.source_length, shape.target_length
    met = [
        _met_keys(length, config.attention_window, causal)
        for length, causal in ((s, False), (t, True))
    ]
    block = _residual(config, width)
    inner = _feed_forward(config, width) + block
    stacks = (
        (source + target) * block
        + config.num_layers
        * (source * (_attention(config, width, met[0]) + block + inner))
        + config.decoder_layers
        * (
            target * (_attention(config, width, met[1]) + block + inner)
            + target * (_queries(config, width, s) + block)
            + source * _memory(config, width)
        )
    )
    passes = 2 if config.r_drop else 1
    logits = _FLOAT32 * config.vocabulary_size * shape.with_logits
    return {
        "activations": passes * stacks,
        "logits and softmax": passes * logits_arrays * logits,
    }


def _met_keys(length, window, causal):
    """Returns the keys that a query is computed with, a mean."""
    blocks = self_attention_blocks(length, window, causal)
    return blocks.count * blocks.queries * blocks.keys / length


def _residual(config, width):
    """Dropout's mask, the norm's output and, in float32, its normal form."""
    mask = _MASK * bool(config.dropout)
    return config.d_model * (width + _FLOAT32 + mask)


def _feed_forward(config, width):
    # ReLU's gradient needs its output alone, that of others their input too.
    copies = 1 + (config.activation != "relu")
    dropped = (width + _MASK) * bool(config.activation_dropout)
    return config.d_ff * (copies * width + dropped)


def _attention(config, width, keys):
    return _queries(config, width, keys) + _memory(config, width)


def _memory(config, width):
    """Keys and values of a position."""
    return width * config.num_heads * (config.d_k + config.d_v)


def _queries(config, width, keys):
    """A query, what its heads found, and its weights in float32."""
    weights = _FLOAT32
    if width != _FLOAT32:
        weights += width
    if config.attention_dropout:
        weights += width + _MASK
    heads = config.num_heads
    return heads * (width * (config.d_k + config.d_v) + weights * keys)


def memory_by_part(
    config, shape, precision, micro_batches, logits_arrays=UNCOMPILED_LOGITS
):
    """Returns the bytes that an update needs on each device.

    Args:
        config: TransformerConfig.
        shape: Shape of one of a device's micro-batches.
        precision: of PRECISIONS.
        micro_batches: of an update.
        logits_arrays: as for `kept_bytes`.

    Returns:
        A dict of part to float.
    """
    return _fixed_bytes(config, precision, micro_batches) | kept_bytes(
        config, shape, precision, logits_arrays
    )


def _fixed_bytes(config, precision, micro_batches):
    parts = parameters_by_part(config)
    count = sum(parts.values())
    matrices = parts["attention"] + parts["feed-forward"]
    is_mixed = compute_bytes(precision) != _FLOAT32
    table = _FLOAT32 * config.vocabulary_size * config.d_model
    return {
        "weights": _FLOAT32 * count,
        "Adam's two moments": 2 * _FLOAT32 * count,
        "gradients": _FLOAT32 * count,
        "accumulated gradients": _FLOAT32 * count * (micro_batches > 1),
        # Of the softmax and of what is looked up, before they are joined.
        "parts of the embeddings' gradient": 2 * table,
        "weights in bfloat16": _BFLOAT16 * matrices * is_mixed,
        "driver and framework": RESERVE_BYTES,
    }


def largest_rows(config, row, precision, device, micro_batches):
    """Returns how many rows of a micro-batch fit into a device's memory.

    Args:
        config: TransformerConfig.
        row: Shape of one row.
        precision: of PRECISIONS.
        device: Device.
        micro_batches: of an update; what matters is whether it is above 1.

    Returns:
        int, 0 where not even one fits.
    """
    fixed = sum(_fixed_bytes(config, precision, micro_batches).values())
    of_a_row = sum(
        kept_bytes(config, row, precision, device.logits_arrays).values()
    )
    return max(math.floor((FILLED * device.memory - fixed) / of_a_row), 0)


def needed_micro_batches(config, row, rows, precision, device):
    """Returns into how many micro-batches a device must cut its rows.

    Args:
        config: TransformerConfig.
        row: Shape of one row.
        rows: of one device's share of an update.
        precision: of PRECISIONS.
        device: Device.

    Returns:
        int, or None where not even one row fits.
    """
    if rows <= largest_rows(config, row, precision, device, 1):
        return 1
    fitting = largest_rows(config, row, precision, device, 2)
    return math.ceil(rows / fitting) if fitting else None
