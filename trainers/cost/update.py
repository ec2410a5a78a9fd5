"""How long an update takes: an estimate from counts and a device's rates.

A device makes its products at a share of its best rate, moves what is kept of
them through its memory some times, and starts operations layer by layer; then
devices add their gradients in a ring and each makes Adam's update. Nothing of
this is taken to overlap but the input, which is made ahead.
"""

import dataclasses

from trainers.cost.flops import EMBEDDINGS, flops_by_part, step_products
from trainers.cost.memory import (
    compute_bytes,
    count_parameters,
    kept_bytes,
)

_FLOAT32 = 4

# Assumed: how often each byte that is kept goes through memory, with all that
# is written and read on the way to it and to its gradient.
MOVES_OF_KEPT = 8
# Adam reads weight, gradient and two moments, and writes all but the gradient.
ADAM_BYTES = 7 * _FLOAT32
# Assumed: which share of a link's bandwidth a ring reaches.
LINK_SHARE = 0.7
# Tokens/s of both sides that the input alone makes: the least measured
# (docs/measured/data.md).
INPUT_TOKENS = 6e6


@dataclasses.dataclass(frozen=True)
class UpdateTime:
    """The seconds of an update by part.

    Attributes:
        products: matrix products.
        memory: moving activations.
        starting: starting operations.
        adam: the optimizer's update.
        all_reduce: adding the gradients of all devices.
        input: making the batch, while the update before is under way.
    """

    products: float
    memory: float
    starting: float
    adam: float
    all_reduce: float
    input: float

    @property
    def computing(self):
        """Seconds but for the input's."""
        return (
            self.products
            + self.memory
            + self.starting
            + self.adam
            + self.all_reduce
        )

    @property
    def total(self):
        """Seconds of the whole update."""
        return max(self.computing, self.input)


def update_time(config, shape, micro_batches, precision, device, count):
    """Estimates the time of an update.

    Args:
        config: TransformerConfig.
        shape: Shape of one micro-batch of one device.
        micro_batches: of each device's share of an update.
        precision: of `trainers.cost.memory.PRECISIONS`, or "float16" for a
            trainer whose every product is float16, logits too.
        device: Device.
        count: of devices.

    Returns:
        UpdateTime.

    Raises:
        InputError: the device has no products of that precision.
    """
    kept = sum(kept_bytes(config, shape, _storage(precision)).values())
    parameters = count_parameters(config)
    layers = config.num_layers + config.decoder_layers
    tokens = shape.rows * (shape.source_length + shape.target_length)
    passes = 2 if config.r_drop else 1
    return UpdateTime(
        products=micro_batches
        * passes
        * _products_seconds(config, shape, precision, device),
        memory=micro_batches * MOVES_OF_KEPT * kept / device.bandwidth,
        starting=micro_batches * passes * layers * device.layer_seconds,
        adam=ADAM_BYTES * parameters / device.bandwidth,
        all_reduce=ring_seconds(_FLOAT32 * parameters, device.link, count),
        input=micro_batches * count * tokens / INPUT_TOKENS,
    )


def _storage(precision):
    """float16 takes as much as bfloat16."""
    return "mixed_bfloat16" if precision == "float16" else precision


def _products_seconds(config, shape, precision, device):
    parts = flops_by_part(step_products(config, *shape))
    if precision == "float16":
        return sum(parts.values()) / device.rate("float16")
    # Our logits are a float32 product under every policy.
    logits = parts.pop(EMBEDDINGS) / device.rate("float32")
    is_mixed = compute_bytes(precision) != _FLOAT32
    dtype = "bfloat16" if is_mixed else "float32"
    return logits + sum(parts.values()) / device.rate(dtype)


def ring_seconds(size, link, count):
    """Returns the seconds in which devices add an array in a ring.

    Each sends 2 (G - 1) / G of it over its link (Patarasuk and Yuan 2009,
    "Bandwidth optimal all-reduce algorithms for clusters of workstations").

    Args:
        size: bytes of the array.
        link: bytes/s of one direction; not needed for one device.
        count: G, devices.
    """
    if count == 1:
        return 0.0
    return 2 * (count - 1) / count * size / (link * LINK_SHARE)
