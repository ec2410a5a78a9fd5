"""Estimates memory, seconds, energy and price of a training.

Bytes of weights, moments and gradients are exact; bytes of activations follow
from the formulas of the layers' gradients. docs/scaling.md lists assumptions.
"""

import dataclasses
import math
import typing
from collections.abc import Iterable, Mapping

from export.common.errors import InputError
from keras_transformer.config import TransformerConfig
from trainers.batches.batch_plan import max_rows
from trainers.cost.devices import UNCOMPILED_LOGITS, Device
from trainers.cost.flops import (
    EMBEDDINGS,
    flops,
    flops_by_component,
    parameters_by_component,
    self_attention_blocks,
    step_products,
)

PRECISIONS = ("float32", "mixed_bfloat16")

_FLOAT32, _BFLOAT16, _BOOL = 4, 2, 1
# Assumed: bytes of a GPU for driver, libraries and framework, and the fraction
# of the rest that can be filled before the allocator finds no block.
RESERVE_BYTES = 2**30
MEMORY_UTILIZATION = 0.9
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
PADDING_FRACTION = 0.01
# Components of an update that `total_seconds` may exclude.
LAUNCH = "launching operations"
INPUT = "input, overlapped"


class MicroBatchShape(typing.NamedTuple):
    """B, S, T of a device's micro-batch, and target positions with logits."""

    rows: float  # May be a mean.
    source_length: int
    target_length: int
    logit_positions: float

    def scaled(self, factor: float) -> typing.Self:
        """Returns the shape with `factor` times the rows."""
        logits = self.logit_positions * factor
        return self._replace(rows=self.rows * factor, logit_positions=logits)


def packed_row(
    source_mean: float, target_mean: float, row_tokens: int
) -> MicroBatchShape:
    """Returns the shape of one packed row, `row_tokens` on its longer side.

    The other side's length follows from the mean lengths of the sentences.
    """
    longer = max(source_mean, target_mean)
    source = max(round(row_tokens * source_mean / longer), 1)
    target = max(round(row_tokens * target_mean / longer), 1)
    return MicroBatchShape(1, source, target, target)


def activation_bytes(
    config: TransformerConfig,
    shape: MicroBatchShape,
    precision: str,
    logits_arrays: int = UNCOMPILED_LOGITS,
) -> dict[str, float]:
    """Estimates the bytes that a forward pass stores, by component."""
    width = _BFLOAT16 if precision == "mixed_bfloat16" else _FLOAT32
    s, t = shape.source_length, shape.target_length
    window, dropped = config.attention_window, bool(config.dropout)
    # Of a residual connection: the dropout mask, the norm's output and, in
    # float32, its normalized input.
    residual = config.d_model * (width + _FLOAT32 + _BOOL * dropped)
    keys_values = width * config.num_heads * (config.d_k + config.d_v)

    def self_attention(length, causal):
        blocks, queries, keys = self_attention_blocks(length, window, causal)
        mean_keys = blocks * queries * keys / length
        return _query_bytes(config, width, mean_keys) + keys_values + residual

    # The gradient of ReLU needs only its output, others also their input.
    copies = 1 if config.activation == "relu" else 2
    hidden = copies * width + (width + _BOOL) * bool(config.activation_dropout)
    feed_forward = config.d_ff * hidden + residual
    encoder_layer = s * (self_attention(s, False) + feed_forward)
    cross_attention = t * (_query_bytes(config, width, s) + residual)
    decoder_layer = t * (self_attention(t, True) + feed_forward)
    decoder_layer += cross_attention + s * keys_values
    stacks = (
        (s + t) * residual
        + config.num_layers * encoder_layer
        + config.decoder_layers * decoder_layer
    )
    passes = 2 if config.r_drop else 1
    logits = _FLOAT32 * config.vocabulary_size * shape.logit_positions
    return {
        "activations": passes * shape.rows * stacks,
        "logits and softmax": passes * logits_arrays * logits,
    }


def _query_bytes(config, width, keys):
    """Returns the bytes of a query, and of the heads' scores and outputs."""
    score = _FLOAT32
    if width != _FLOAT32:
        score += width
    if config.attention_dropout:
        score += width + _BOOL
    head = width * (config.d_k + config.d_v) + score * keys
    return config.num_heads * head


def memory_by_component(
    config: TransformerConfig,
    shape: MicroBatchShape,
    precision: str,
    micro_batches: int,
    device: Device,
) -> dict[str, float]:
    """Returns the bytes of an update on each device, by component."""
    parameters = parameters_by_component(config)
    weights = _FLOAT32 * sum(parameters.values())
    matrices = parameters["attention"] + parameters["feed-forward"]
    is_mixed = precision == "mixed_bfloat16"
    embeddings = _FLOAT32 * config.vocabulary_size * config.d_model
    return {
        "weights": weights,
        "Adam's two moments": 2 * weights,
        "gradients": weights,
        "accumulated gradients": weights * (micro_batches > 1),
        # One from the softmax and one from the look-ups, before the sum.
        "parts of the embeddings' gradient": 2 * embeddings,
        "weights in bfloat16": _BFLOAT16 * matrices * is_mixed,
        "driver and framework": RESERVE_BYTES,
        **activation_bytes(config, shape, precision, device.logits_arrays),
    }


def largest_rows(
    config: TransformerConfig,
    row: MicroBatchShape,
    precision: str,
    micro_batches: int,
    device: Device,
) -> int:
    """Returns the number of packed rows that fit in a device's memory."""

    def total(rows):
        memory = memory_by_component(
            config, row.scaled(rows), precision, micro_batches, device
        )
        return sum(memory.values())

    empty, one = total(0), total(1)
    available = MEMORY_UTILIZATION * device.memory - empty  # type: ignore[operator]
    return max(math.floor(available / (one - empty)), 0)


def needed_micro_batches(
    config: TransformerConfig,
    row: MicroBatchShape,
    rows: int,
    precision: str,
    device: Device,
) -> int:
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


def step_seconds(
    config: TransformerConfig,
    shape: MicroBatchShape,
    precision: str,
    micro_batches: int,
    device: Device,
    num_devices: int,
) -> dict[str, float]:
    """Estimates the seconds of an update, by component.

    Each device computes `micro_batches` of a `shape`.
    """
    activations = sum(activation_bytes(config, shape, precision).values())
    parameters = sum(parameters_by_component(config).values())
    layers = config.num_layers + config.decoder_layers
    tokens = shape.rows * (shape.source_length + shape.target_length)
    passes = micro_batches * (2 if config.r_drop else 1)
    products = flops_by_component(step_products(config, *shape))
    # Logits are computed in float32 under every policy.
    logits = products.pop(EMBEDDINGS) / device.rate("float32")
    dtype = precision.removeprefix("mixed_")
    others = sum(products.values()) / device.rate(dtype)
    moved_bytes = micro_batches * ACTIVATION_MOVES * activations
    ring = ring_seconds(_FLOAT32 * parameters, device.link, num_devices)
    return {
        "matrix products": passes * (logits + others),
        "moving activations": moved_bytes / device.bandwidth,
        LAUNCH: passes * layers * device.layer_seconds,
        "Adam": _ADAM_BYTES * parameters / device.bandwidth,
        "adding gradients in a ring": ring,
        INPUT: micro_batches * num_devices * tokens / _INPUT_TOKENS,
    }


def total_seconds(
    seconds: Mapping[str, float], excluded: Iterable[str] = ()
) -> float:
    """Returns the seconds of an update without the excluded components."""
    excluded = (INPUT, *excluded)
    computing = sum(seconds[name] for name in seconds if name not in excluded)
    return max(computing, seconds[INPUT])


def ring_seconds(size: float, link: float | None, num_devices: int) -> float:
    """Returns the seconds of a ring all-reduce on G devices.

    Each sends 2 (G - 1) / G of its `size` bytes, over a link of `link` bytes/s
    in one direction (Patarasuk and Yuan 2009).
    """
    if num_devices == 1:
        return 0.0
    sent = 2 * (num_devices - 1) / num_devices * size
    return sent / (link * LINK_UTILIZATION)  # type: ignore[operator]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingCost:
    """Estimated cost of a training on `num_devices` equal devices.

    An update has `rows` packed rows of shape `row` on all devices together; a
    device's micro-batch has `shape`. `seconds` of an update and `memory` bytes
    of a device are by component.
    """

    config: TransformerConfig
    device: Device
    num_devices: int
    precision: str
    row: MicroBatchShape
    rows: int
    micro_batches: int
    shape: MicroBatchShape
    seconds: dict[str, float]
    memory: dict[str, float]

    @property
    def target_tokens(self) -> float:
        """Target tokens of an update, without padding."""
        return self.rows * self.row.target_length * (1 - PADDING_FRACTION)

    @property
    def flops(self) -> float:
        """FLOPs of the matrix products of all updates."""
        passes = 2 if self.config.r_drop else 1
        update = flops(step_products(self.config, *self.row.scaled(self.rows)))
        return self.config.train_steps * passes * update

    def hours(self, excluded: Iterable[str] = ()) -> float:
        """Returns the hours of all updates, without the excluded components."""
        seconds = total_seconds(self.seconds, excluded)
        return self.config.train_steps * seconds / 3600

    @property
    def kilowatt_hours(self) -> float | None:
        """Energy of the devices at full load; None if unknown."""
        if self.device.watts is None:
            return None
        return self.hours() * self.num_devices * self.device.watts / 1000


def training_cost(
    config: TransformerConfig,
    row: MicroBatchShape,
    device: Device,
    num_devices: int,
    precision: str,
    accumulate: int | None = None,
) -> TrainingCost:
    """Returns the cost of a configuration on `num_devices` devices.

    `accumulate` is the number of micro-batches, by default as few as fit.
    InputError if the memory is exceeded, or there are more devices than rows.
    """
    rows = int(
        max_rows(row.source_length, row.target_length, config.batch_tokens)
    )
    if num_devices > rows:
        raise InputError(
            f"Expected at most {rows:,} devices, one for each row, got "
            f"{num_devices:,}; use fewer, or raise --set=batch_tokens."
        )
    device_rows = math.ceil(rows / num_devices)
    needed = needed_micro_batches(config, row, device_rows, precision, device)
    if accumulate is not None and accumulate < needed:
        raise InputError(
            f"--accumulate={accumulate} does not fit into the memory of "
            f"{device.name}; use {needed}."
        )
    micro_batches = accumulate or needed
    # The last rows may be padding.
    shape = row.scaled(math.ceil(rows / (num_devices * micro_batches)))
    return TrainingCost(
        config=config,
        device=device,
        num_devices=num_devices,
        precision=precision,
        row=row,
        rows=rows,
        micro_batches=micro_batches,
        shape=shape,
        seconds=step_seconds(
            config, shape, precision, micro_batches, device, num_devices
        ),
        memory=memory_by_component(
            config, shape, precision, micro_batches, device
        ),
    )
