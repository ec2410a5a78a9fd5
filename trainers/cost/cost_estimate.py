"""Estimates what a training takes: seconds, memory, energy, price.

A device computes its matrix products at a share of its peak rate, moves the
activations through its memory several times, and launches operations layer by
layer; then all devices add their gradients in a ring and each makes Adam's
update. Only the input overlaps with the rest: it is prepared ahead.
"""

import dataclasses

from export.errors import InputError
from trainers.batches.plan import most_rows
from trainers.cost.devices import Device
from trainers.cost.flops import (
    EMBEDDINGS,
    flops,
    flops_by_part,
    step_products,
)
from trainers.cost.memory import (
    Shape,
    activation_bytes,
    count_parameters,
    largest_rows,
    memory_by_part,
    needed_micro_batches,
)

_FLOAT32 = 4
_SECONDS_PER_HOUR = 3600

# Assumed: how often each byte of activations passes through memory.
ACTIVATION_MOVES = 8
# Adam reads weight, gradient and two moments, and writes all but the gradient.
ADAM_BYTES = 7 * _FLOAT32
# Assumed: the share of a link's bandwidth that a ring reaches.
LINK_UTILIZATION = 0.7
# Tokens/s of both sides that the input pipeline makes by itself: the least
# measured (docs/measured/data.md).
INPUT_TOKENS = 6e6
# The share of packed rows that is padding (docs/measured/data.md).
PADDING = 0.01


# Parts of an update that are not always counted.
LAUNCH = "launching operations"
INPUT = "input, overlapped"


def update_seconds(config, shape, micro_batches, precision, device, count):
    """Estimates the time of an update.

    Args:
        config: TransformerConfig.
        shape: Shape of one micro-batch of one device.
        micro_batches: of each device's share of an update.
        precision: one of `trainers.cost.memory.PRECISIONS`, or "float16" for
            a trainer whose products are all float16, logits too.
        device: Device.
        count: number of devices.

    Returns:
        A dict of part to seconds; see `total_seconds`.

    Raises:
        InputError: the device has no products of that precision.
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


def total_seconds(parts, without=()):
    """Returns the seconds of an update, `without` some of its parts."""
    left_out = (INPUT, *without)
    computing = sum(parts[part] for part in parts if part not in left_out)
    return max(computing, parts[INPUT])


def _product_seconds(config, shape, precision, device):
    parts = flops_by_part(step_products(config, *shape))
    dtype = precision.removeprefix("mixed_")
    # This trainer's logits are a float32 product under every policy.
    logits_dtype = "float16" if precision == "float16" else "float32"
    logits = parts.pop(EMBEDDINGS) / device.rate(logits_dtype)
    return logits + sum(parts.values()) / device.rate(dtype)


def ring_seconds(size, link, count):
    """Returns the seconds in which `count` devices add an array in a ring.

    Each sends 2 (count - 1) / count of it (Patarasuk and Yuan 2009).

    Args:
        size: bytes of the array.
        link: bytes/s of one direction; unused for one device.
        count: number of devices.
    """
    if count == 1:
        return 0.0
    return 2 * (count - 1) / count * size / (link * LINK_UTILIZATION)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """Devices that train together.

    Attributes:
        device: Device.
        count: number of devices.
        precision: one of `trainers.cost.memory.PRECISIONS`.
        hour_price: price of one device's hour, in any currency, or None.
    """

    device: Device
    count: int
    precision: str
    hour_price: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingCost:
    """What a training takes.

    Attributes:
        config: TransformerConfig.
        machine: Machine.
        row: Shape of a packed row.
        rows: rows of an update, all devices together.
        micro_batches: of each device's share of them.
        seconds: of an update, as `update_seconds` returns them.
    """

    config: object
    machine: Machine
    row: Shape
    rows: int
    micro_batches: int
    seconds: dict

    @property
    def shape(self):
        """Shape of one micro-batch of one device."""
        share = _share(self.rows, self.machine.count * self.micro_batches)
        return self.row.scaled(share)

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
    def hours(self):
        """Hours of all updates, without dev measurements and scores."""
        return self._hours()

    @property
    def least_hours(self):
        """Hours if launching operations took no time, as if compiled."""
        return self._hours(without=[LAUNCH])

    def _hours(self, without=()):
        seconds = total_seconds(self.seconds, without)
        return self.config.train_steps * seconds / _SECONDS_PER_HOUR

    @property
    def kilowatt_hours(self):
        """Energy of the devices at full load; None if unknown."""
        return self._per_device_hour(self.machine.device.watts, 1000)

    @property
    def price(self):
        """Price of the devices' hours; None without an hour's price."""
        return self._per_device_hour(self.machine.hour_price)

    def _per_device_hour(self, value, unit=1):
        if value is None:
            return None
        return self.hours * self.machine.count * value / unit

    @property
    def memory(self):
        """Bytes on each device, a dict of part to float."""
        return memory_by_part(
            self.config,
            self.shape,
            self.machine.precision,
            self.micro_batches,
            self.machine.device.logits_arrays,
        )

    @property
    def largest_rows(self):
        """Rows of a micro-batch that fit; None if the memory is unknown."""
        machine = self.machine
        if machine.device.memory is None:
            return None
        sizes = (self.config, self.row, machine.precision, machine.device)
        return largest_rows(*sizes, self.micro_batches)


def packed_row(source_mean, target_mean, row_tokens):
    """Returns the Shape of a packed row, as the trainer makes them.

    Args:
        source_mean: mean length of a source sentence in tokens.
        target_mean: mean length of a target sentence.
        row_tokens: positions of the longer side.
    """
    longer = max(source_mean, target_mean)
    source, target = (
        max(round(row_tokens * mean / longer), 1)
        for mean in (source_mean, target_mean)
    )
    return Shape(1, source, target, target)


def _share(rows, parts):
    """Rows of each part; the last ones may be padding."""
    return -(-rows // parts)


def training_cost(config, machine, row, accumulate=None):
    """Estimates what a training takes.

    Args:
        config: TransformerConfig.
        machine: Machine.
        row: Shape of a packed row.
        accumulate: micro-batches of an update; None for as few as fit.

    Returns:
        TrainingCost.

    Raises:
        InputError: it does not fit into the devices' memory, or there are
            more devices than rows.
    """
    rows = int(
        most_rows(row.source_length, row.target_length, config.batch_tokens)
    )
    if machine.count > rows:
        raise InputError(
            f"Expected at most {rows:,} devices, one for each row of an "
            f"update, got {machine.count:,}; take fewer, or raise "
            "--set=batch_tokens."
        )
    needed = needed_micro_batches(
        config,
        row,
        _share(rows, machine.count),
        machine.precision,
        machine.device,
    )
    if accumulate is None:
        accumulate = needed
    elif accumulate < needed:
        raise InputError(
            f"--accumulate={accumulate} does not fit into the memory of "
            f"{machine.device.name}; use {needed}."
        )
    seconds = update_seconds(
        config,
        row.scaled(_share(rows, machine.count * accumulate)),
        accumulate,
        machine.precision,
        machine.device,
        machine.count,
    )
    return TrainingCost(
        config=config,
        machine=machine,
        row=row,
        rows=rows,
        micro_batches=accumulate,
        seconds=seconds,
    )
