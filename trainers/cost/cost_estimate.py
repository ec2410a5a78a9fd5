"""Estimates memory, seconds, energy and price of a training.

Bytes of weights, moments and gradients are exact. Bytes of activations are what
the backward pass of a layer needs by its formulas. docs/scaling.md lists what
is assumed.
"""

import dataclasses
import math
import typing

from export.common.errors import InputError
from trainers.batches.batch_plan import max_rows
from trainers.cost.devices import UNCOMPILED_LOGITS, Device
from trainers.cost.flops import (
    EMBEDDINGS,
    flops,
    flops_by_part,
    parameters_by_part,
    self_attention_blocks,
    step_products,
)

PRECISIONS = ("float32", "mixed_bfloat16")

_FLOAT32, _BFLOAT16, _BOOL = 4, 2, 1
# Assumed: bytes of a GPU for driver, libraries and framework, and the fraction
# of the rest that can be filled before the allocator finds no block.
RESERVE_BYTES = 2**30
FILLED = 0.9
# Assumed number of times that each activation passes through memory.
ACTIVATION_MOVES = 8
# Adam reads weight, gradient and two moments, and writes all but the gradient.
_ADAM_BYTES = 7 * _FLOAT32
# Assumed fraction of a link's bandwidth that a ring reaches.
LINK_UTILIZATION = 0.7
# Tokens/s of both sides from the input pipeline alone: the lowest measured
# (docs/measured/data.md).
_INPUT_TOKENS = 6e6
# Fraction of padding in packed rows (docs/measured/data.md).
PADDING = 0.01
# Parts of an update that `total_seconds` may exclude.
LAUNCH = "launching operations"
INPUT = "input, overlapped"


class BatchShape(typing.NamedTuple):
    """B, S, T of a device's micro-batch, and target positions with logits.

    `rows` is a mean and may be no integer.
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


def packed_row(source_mean, target_mean, row_tokens):
    """Returns the BatchShape of a packed row, `row_tokens` on its longer side.

    The other side's length follows from the mean lengths of the sentences.
    """
    longer = max(source_mean, target_mean)
    source, target = (
        max(round(row_tokens * mean / longer), 1)
        for mean in (source_mean, target_mean)
    )
    return BatchShape(1, source, target, target)


def activation_bytes(config, shape, precision, logits_arrays=UNCOMPILED_LOGITS):
    """Estimates the bytes that a forward pass stores, a dict by part."""
    width = _BFLOAT16 if precision == "mixed_bfloat16" else _FLOAT32
    s, t = shape.source_length, shape.target_length
    window, dropped = config.attention_window, bool(config.dropout)
    # Of a residual connection: the dropout mask, the norm's output and, in
    # float32, its normalized input.
    residual = config.d_model * (width + _FLOAT32 + _BOOL * dropped)
    keys_values = width * config.num_heads * (config.d_k + config.d_v)

    def self_attention(length, causal):
        blocks, queries, keys = self_attention_blocks(length, window, causal)
        met = blocks * queries * keys / length
        return _queries(config, width, met) + keys_values + residual

    # The gradient of ReLU needs only its output, others also their input.
    copies = 1 if config.activation == "relu" else 2
    inner = copies * width + (width + _BOOL) * bool(config.activation_dropout)
    feed_forward = config.d_ff * inner + residual
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


def _queries(config, width, keys):
    """Returns the bytes of a query, and of the heads' outputs and weights."""
    weight = _FLOAT32
    if width != _FLOAT32:
        weight += width
    if config.attention_dropout:
        weight += width + _BOOL
    return config.num_heads * (
        width * (config.d_k + config.d_v) + weight * keys
    )


def memory_by_part(config, shape, precision, micro_batches, device):
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
        **activation_bytes(config, shape, precision, device.logits_arrays),
    }


def largest_rows(config, row, precision, micro_batches, device):
    """Returns the number of packed rows that fit in a device's memory."""

    def total(rows):
        shape = row.scaled(rows)
        parts = memory_by_part(config, shape, precision, micro_batches, device)
        return sum(parts.values())

    empty, one = total(0), total(1)
    available = FILLED * device.memory - empty
    return max(math.floor(available / (one - empty)), 0)


def needed_micro_batches(config, row, rows, precision, device):
    """Returns the minimum number of micro-batches for a device's `rows`."""
    if device.memory is None or rows <= largest_rows(
        config, row, precision, 1, device
    ):
        return 1
    fitting = largest_rows(config, row, precision, 2, device)
    if not fitting:
        raise InputError(
            f"Not even one row fits into the {device.memory / 2**30:,.3g} GiB "
            f"of {device.name}; use a smaller model or --row_tokens."
        )
    return math.ceil(rows / fitting)


def update_seconds(config, shape, precision, micro_batches, device, count):
    """Estimates the seconds of an update on `count` devices, a dict by part.

    Each device computes `micro_batches` of a BatchShape.
    """
    activations = sum(activation_bytes(config, shape, precision).values())
    parameters = sum(parameters_by_part(config).values())
    layers = config.num_layers + config.decoder_layers
    tokens = shape.rows * (shape.source_length + shape.target_length)
    passes = micro_batches * (2 if config.r_drop else 1)
    products = flops_by_part(step_products(config, *shape))
    # Logits are computed in float32 under every policy.
    logits = products.pop(EMBEDDINGS) / device.rate("float32")
    dtype = precision.removeprefix("mixed_")
    others = sum(products.values()) / device.rate(dtype)
    return {
        "matrix products": passes * (logits + others),
        "moving activations": micro_batches
        * ACTIVATION_MOVES
        * activations
        / device.bandwidth,
        LAUNCH: passes * layers * device.layer_seconds,
        "Adam": _ADAM_BYTES * parameters / device.bandwidth,
        "adding gradients in a ring": ring_seconds(
            _FLOAT32 * parameters, device.link, count
        ),
        INPUT: micro_batches * count * tokens / _INPUT_TOKENS,
    }


def total_seconds(parts, excluded=()):
    """Returns the seconds of an update without the excluded parts."""
    excluded = (INPUT, *excluded)
    computing = sum(parts[part] for part in parts if part not in excluded)
    return max(computing, parts[INPUT])


def ring_seconds(size, link, count):
    """Returns the seconds of a ring all-reduce on `count` devices.

    Each sends 2 (count - 1) / count of its `size` bytes, over a link of `link`
    bytes/s in one direction (Patarasuk and Yuan 2009).
    """
    if count == 1:
        return 0.0
    return 2 * (count - 1) / count * size / (link * LINK_UTILIZATION)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingCost:
    """Estimated cost of a training on `count` equal devices.

    An update has `rows` packed rows of shape `row` on all devices together.
    """

    config: object
    device: Device
    count: int
    precision: str
    row: BatchShape
    rows: int
    micro_batches: int

    @property
    def shape(self):
        """BatchShape of one micro-batch of one device."""
        # Rounded up: the last rows may be padding.
        return self.row.scaled(
            -(-self.rows // (self.count * self.micro_batches))
        )

    @property
    def target_tokens(self):
        """Target tokens of an update, without padding."""
        return self.rows * self.row.target_length * (1 - PADDING)

    @property
    def flops(self):
        """FLOPs of the matrix products of all updates."""
        passes = 2 if self.config.r_drop else 1
        update = flops(step_products(self.config, *self.row.scaled(self.rows)))
        return self.config.train_steps * passes * update

    @property
    def _update(self):
        numbers = self.precision, self.micro_batches
        return self.config, self.shape, *numbers, self.device

    @property
    def seconds(self):
        """Seconds of an update by part, see `update_seconds`."""
        return update_seconds(*self._update, self.count)

    def hours(self, excluded=()):
        """Returns the hours of all updates, without the excluded parts."""
        seconds = total_seconds(self.seconds, excluded)
        return self.config.train_steps * seconds / 3600

    @property
    def kilowatt_hours(self):
        """Energy of the devices at full load; None if unknown."""
        if self.device.watts is None:
            return None
        return self.hours() * self.count * self.device.watts / 1000

    @property
    def memory(self):
        """Bytes on each device, a dict of part to float."""
        return memory_by_part(*self._update)


def training_cost(config, row, device, count, precision, accumulate=None):
    """Returns the TrainingCost of a configuration on `count` devices.

    `accumulate` is the number of micro-batches, by default as few as fit.
    InputError if the memory is exceeded, or there are more devices than rows.
    """
    rows = int(
        max_rows(row.source_length, row.target_length, config.batch_tokens)
    )
    if count > rows:
        raise InputError(
            f"Expected at most {rows:,} devices, one for each row, got "
            f"{count:,}; use fewer, or raise --set=batch_tokens."
        )
    share = -(-rows // count)
    needed = needed_micro_batches(config, row, share, precision, device)
    if accumulate is not None and accumulate < needed:
        raise InputError(
            f"--accumulate={accumulate} does not fit into the memory of "
            f"{device.name}; use {needed}."
        )
    return TrainingCost(
        config=config,
        device=device,
        count=count,
        precision=precision,
        row=row,
        rows=rows,
        micro_batches=accumulate or needed,
    )
