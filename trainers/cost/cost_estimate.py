"""A whole training on a machine: batches, memory, hours, energy, price."""

import dataclasses

from export.errors import InputError
from trainers.batches.plan import most_rows
from trainers.cost.devices import Device
from trainers.cost.flops import flops, step_products
from trainers.cost.memory import (
    Shape,
    largest_rows,
    memory_by_part,
    needed_micro_batches,
)
from trainers.cost.update import UpdateTime, update_time

# Of packed rows (docs/measured/data.md).
PADDING = 0.01
_SECONDS_AN_HOUR = 3600


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """Devices that train together.

    Attributes:
        device: Device.
        count: of devices.
        precision: of `trainers.cost.memory.PRECISIONS`.
        hour_price: of one device's hour, in whatever currency; None where
            it was not given.
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
        rows: of an update, all devices together.
        micro_batches: of each device's share of them.
        time: UpdateTime.
    """

    config: object
    machine: Machine
    row: Shape
    rows: int
    micro_batches: int
    time: UpdateTime

    @property
    def shape(self):
        """Shape of one micro-batch of one device."""
        share = micro_batch_rows(
            self.rows, self.machine.count, self.micro_batches
        )
        return self.row.scaled(share)

    @property
    def target_tokens(self):
        """Real target tokens of an update."""
        return self.rows * self.row.target_length * (1 - PADDING)

    @property
    def flops(self):
        """FLOPs of the products of all updates."""
        passes = 2 if self.config.r_drop else 1
        shape = self.row.scaled(self.rows)
        of_update = flops(step_products(self.config, *shape))
        return self.config.train_steps * passes * of_update

    @property
    def hours(self):
        """Hours of all updates; measures of dev and scores not counted."""
        return self.config.train_steps * self.time.total / _SECONDS_AN_HOUR

    @property
    def least_hours(self):
        """Hours if starting operations took none, as if all were compiled."""
        seconds = max(self.time.computing - self.time.starting, self.time.input)
        return self.config.train_steps * seconds / _SECONDS_AN_HOUR

    @property
    def kilowatt_hours(self):
        """Energy of the devices at full load; None where it is not known."""
        watts = self.machine.device.watts
        if watts is None:
            return None
        return self.hours * self.machine.count * watts / 1000

    @property
    def price(self):
        """Price of the devices' hours; None where none was given."""
        if self.machine.hour_price is None:
            return None
        return self.hours * self.machine.count * self.machine.hour_price

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
        """Rows of a micro-batch that fit; None where memory is not known."""
        device = self.machine.device
        if device.memory is None:
            return None
        return largest_rows(
            self.config,
            self.row,
            self.machine.precision,
            device,
            self.micro_batches,
        )


def packed_row(source_mean, target_mean, row_tokens):
    """Returns the Shape of a packed row, as the trainer makes them.

    Args:
        source_mean: mean length of a source sentence in pieces.
        target_mean: of a target sentence.
        row_tokens: positions of the longer side.
    """
    longer = max(source_mean, target_mean)
    source, target = (
        max(round(row_tokens * mean / longer), 1)
        for mean in (source_mean, target_mean)
    )
    return Shape(1, source, target, target)


def micro_batch_rows(rows, count, micro_batches):
    """Returns the rows of a micro-batch; the last ones may be padding."""
    return -(-rows // (count * micro_batches))


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
            f"{machine.count:,} devices are more than the {rows:,} rows of an "
            "update; take fewer, or raise --set=batch_tokens."
        )
    share = micro_batch_rows(rows, machine.count, 1)
    needed = _needed(config, machine, row, share)
    if accumulate is None:
        accumulate = needed
    elif accumulate < needed:
        raise InputError(
            f"--accumulate={accumulate} does not fit into the memory of "
            f"{machine.device.name}; {needed} does."
        )
    shape = row.scaled(micro_batch_rows(rows, machine.count, accumulate))
    time = update_time(
        config,
        shape,
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
        time=time,
    )


def _needed(config, machine, row, share):
    memory = machine.device.memory
    if memory is None:
        return 1
    needed = needed_micro_batches(
        config, row, share, machine.precision, machine.device
    )
    if needed is None:
        raise InputError(
            f"The model does not fit into the memory of {machine.device.name} "
            f"({memory / 2**30:,.0f} GiB) with even one row of "
            f"{row.target_length} target positions; take a smaller model, a "
            "smaller --row_tokens or a GPU with more memory."
        )
    return needed
