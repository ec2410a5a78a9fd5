"""Counts parameters, and the memory of a training step by part.

Bytes of weights, moments and gradients are exact. Bytes of activations are what
the backward pass of a layer needs by its formulas; a compiler may recompute
some, and needs room for what it is about to compute.
"""

import math
import typing

from export.common.errors import InputError
from trainers.cost.flops import self_attention_blocks

PRECISIONS = ("float32", "mixed_bfloat16")

_FLOAT32, _BFLOAT16, _BOOL = 4, 2, 1
# Arrays of the logits' size that a step holds at once: logits and softmax;
# twice as many by XLA's own memory analysis (docs/measured/scaling.md).
UNCOMPILED_LOGITS = 2
COMPILED_LOGITS = 4

# Assumed: bytes of a GPU for driver, libraries and framework, and the fraction
# of the rest that can be filled before the allocator finds no block.
RESERVE_BYTES = 2**30
FILLED = 0.9


class BatchShape(typing.NamedTuple):
    """Shape of a micro-batch: B, S, T, and target positions with logits.

    It is that of one device; `rows` is a mean and may be no integer.
    """

    rows: float
    source_length: int
    target_length: int
    with_logits: float

    def scaled(self, factor):
        """Returns the shape with `factor` times the rows."""
        return self._replace(
            rows=self.rows * factor, with_logits=self.with_logits * factor
        )


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


def count_parameters(config):
    """Returns the number of trained parameters."""
    return sum(parameters_by_part(config).values())


def activation_bytes(config, shape, precision, logits_arrays=UNCOMPILED_LOGITS):
    """Estimates the bytes that a forward pass stores for the backward pass.

    `logits_arrays` is the number of arrays of the logits' size held at once;
    they are float32 in both precisions. Returns a dict of `activations` of the
    stacks and `logits and softmax`.
    """
    width = _BFLOAT16 if precision == "mixed_bfloat16" else _FLOAT32
    s, t = shape.source_length, shape.target_length
    window, dropped = config.attention_window, bool(config.dropout)
    # Of a residual connection: the dropout mask, the norm's output and, in
    # float32, its normalised input.
    residual = config.d_model * (width + _FLOAT32 + _BOOL * dropped)
    feed_forward = _feed_forward(config, width) + residual
    keys_values = width * config.num_heads * (config.d_k + config.d_v)

    def self_attention(length, causal):
        blocks, queries, keys = self_attention_blocks(length, window, causal)
        met = blocks * queries * keys / length
        return _queries(config, width, met) + keys_values + residual

    encoder_layer = s * (self_attention(s, False) + feed_forward)
    cross_attention = t * (_queries(config, width, s) + residual)
    decoder_layer = (
        t * (self_attention(t, True) + feed_forward)
        + cross_attention
        + s * keys_values
    )
    stacks = (
        (s + t) * residual
        + config.num_layers * encoder_layer
        + config.decoder_layers * decoder_layer
    )
    passes = 2 if config.r_drop else 1
    logits = _FLOAT32 * config.vocabulary_size * shape.with_logits
    return {
        "activations": passes * shape.rows * stacks,
        "logits and softmax": passes * logits_arrays * logits,
    }


def _feed_forward(config, width):
    # The gradient of ReLU needs only its output, others also their input.
    copies = 1 if config.activation == "relu" else 2
    dropped = (width + _BOOL) * bool(config.activation_dropout)
    return config.d_ff * (copies * width + dropped)


def _queries(config, width, keys):
    """Returns the bytes of a query, the heads' outputs and the weights."""
    weight = _FLOAT32
    if width != _FLOAT32:
        weight += width
    if config.attention_dropout:
        weight += width + _BOOL
    return config.num_heads * (
        width * (config.d_k + config.d_v) + weight * keys
    )


def memory_by_part(
    config, shape, precision, micro_batches, logits_arrays=UNCOMPILED_LOGITS
):
    """Returns the bytes of an update on each device, a dict by part."""
    parts = parameters_by_part(config)
    weights = _FLOAT32 * sum(parts.values())
    matrices = parts["attention"] + parts["feed-forward"]
    is_mixed = precision == "mixed_bfloat16"
    table = _FLOAT32 * config.vocabulary_size * config.d_model
    return {
        "weights": weights,
        "Adam's two moments": 2 * weights,
        "gradients": weights,
        "accumulated gradients": weights * (micro_batches > 1),
        # One from the softmax and one from the look-ups, before the sum.
        "parts of the embeddings' gradient": 2 * table,
        "weights in bfloat16": _BFLOAT16 * matrices * is_mixed,
        "driver and framework": RESERVE_BYTES,
        **activation_bytes(config, shape, precision, logits_arrays),
    }


def largest_rows(config, row, precision, device, micro_batches):
    """Returns the number of packed rows that fit in a device's memory."""
    empty, one = (
        sum(
            memory_by_part(
                config,
                row.scaled(rows),
                precision,
                micro_batches,
                device.logits_arrays,
            ).values()
        )
        for rows in (0, 1)
    )
    available = FILLED * device.memory - empty
    return max(math.floor(available / (one - empty)), 0)


def needed_micro_batches(config, row, rows, precision, device):
    """Returns the minimum number of micro-batches for a device's `rows`.

    InputError if not even one row fits.
    """
    if device.memory is None:
        return 1
    if rows <= largest_rows(config, row, precision, device, 1):
        return 1
    fitting = largest_rows(config, row, precision, device, 2)
    if not fitting:
        raise InputError(
            f"The model does not fit into the {device.memory / 2**30:,.3g} "
            f"GiB of {device.name}, even with one row of {row.target_length} "
            "target positions; use a smaller model, a smaller --row_tokens "
            "or a GPU with more memory."
        )
    return math.ceil(rows / fitting)
