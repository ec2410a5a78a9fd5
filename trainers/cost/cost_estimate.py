"""Estimates seconds, memory, energy and price of a training.

A device computes matrix products at a fraction of its peak rate, moves the
activations through its memory several times, and launches operations layer by
layer; then the devices sum their gradients in a ring and each runs Adam. Only
the input pipeline overlaps with the rest.
"""

import dataclasses
import functools

from export.common.errors import InputError
from trainers.batches.batch_plan import max_rows
from trainers.cost.devices import Device
from trainers.cost.flops import (
    EMBEDDINGS,
    flops,
    flops_by_part,
    step_products,
)
from trainers.cost.memory import (
    BatchShape,
    activation_bytes,
    count_parameters,
    memory_by_part,
    needed_micro_batches,
)

_FLOAT32 = 4

# Assumed number of times that each activation passes through memory.
ACTIVATION_MOVES = 8
# Adam reads weight, gradient and two moments, and writes all but the gradient.
ADAM_BYTES = 7 * _FLOAT32
# Assumed fraction of a link's bandwidth that a ring reaches.
LINK_UTILIZATION = 0.7
# Tokens/s of both sides from the input pipeline alone: the lowest measured
# (docs/measured/data.md).
INPUT_TOKENS = 6e6
# Fraction of padding in packed rows (docs/measured/data.md).
PADDING = 0.01


# Parts of an update that `total_seconds` may exclude.
LAUNCH = "launching operations"
INPUT = "input, overlapped"


def update_seconds(config, shape, micro_batches, precision, device, count):
    """Estimates the seconds of an update on `count` devices, by part.

    `shape` is the BatchShape of one micro-batch of one device, `micro_batches`
    the number of them in each device's share. `precision` is one of
    `trainers.cost.memory.PRECISIONS`, or "float16" for a trainer that computes
    all products in float16, logits too. Returns a dict for `total_seconds`.
    """
    stored = "mixed_bfloat16" if precision == "float16" else precision
    activations = sum(activation_bytes(config, shape, stored).values())
    moved = micro_batches * ACTIVATION_MOVES * activations
    parameters = count_parameters(config)
    layers = config.num_layers + config.decoder_layers
    tokens = shape.rows * (shape.source_length + shape.target_length)
    passes = micro_batches * (2 if config.r_drop else 1)
    return {
        "matrix products": passes
        * _product_seconds(config, shape, precision, device),
        "moving activations": moved / device.bandwidth,
        LAUNCH: passes * layers * device.layer_seconds,
        "Adam": ADAM_BYTES * parameters / device.bandwidth,
        "adding gradients in a ring": ring_seconds(
            _FLOAT32 * parameters, device.link, count
        ),
        INPUT: micro_batches * count * tokens / INPUT_TOKENS,
    }


def total_seconds(parts, excluded=()):
    """Returns the seconds of an update without the excluded parts."""
    excluded = (INPUT, *excluded)
    computing = sum(parts[part] for part in parts if part not in excluded)
    return max(computing, parts[INPUT])


def _product_seconds(config, shape, precision, device):
    parts = flops_by_part(step_products(config, *shape))
    dtype = precision.removeprefix("mixed_")
    # This trainer computes logits in float32 under every policy.
    logits_dtype = "float16" if precision == "float16" else "float32"
    logits = parts.pop(EMBEDDINGS) / device.rate(logits_dtype)
    return logits + sum(parts.values()) / device.rate(dtype)


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

    `row` is the shape of a packed row, `rows` the number of rows of an update
    on all devices together, and `micro_batches` the parts of each device's
    share.
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

    @functools.cached_property
    def seconds(self):
        """Seconds of an update by part, see `update_seconds`."""
        return update_seconds(
            self.config,
            self.shape,
            self.micro_batches,
            self.precision,
            self.device,
            self.count,
        )

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
        return memory_by_part(
            self.config,
            self.shape,
            self.precision,
            self.micro_batches,
            self.device.logits_arrays,
        )


def packed_row(source_mean, target_mean, row_tokens):
    """Returns the BatchShape of a packed row, as the trainer packs it.

    It has `row_tokens` positions on its longer side; the length of the other
    side follows from the mean lengths of source and target sentences.
    """
    longer = max(source_mean, target_mean)
    source, target = (
        max(round(row_tokens * mean / longer), 1)
        for mean in (source_mean, target_mean)
    )
    return BatchShape(1, source, target, target)


def training_cost(config, row, device, count, precision, accumulate=None):
    """Returns the TrainingCost of a configuration on `count` devices.

    `accumulate` is the number of micro-batches, by default as few as fit.

    Raises:
        InputError: the training exceeds the devices' memory, or there are more
            devices than rows.
    """
    rows = int(
        max_rows(row.source_length, row.target_length, config.batch_tokens)
    )
    if count > rows:
        raise InputError(
            f"Expected at most {rows:,} devices, one for each row of an "
            f"update, got {count:,}; use fewer, or raise --set=batch_tokens."
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
