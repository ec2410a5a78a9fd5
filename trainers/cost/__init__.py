"""What a training costs before it is begun: counts, and estimates from them.

`training_cost` is the way in. A configuration and a machine come in; FLOPs
and parameters, counted exactly, and memory, seconds, energy and price,
estimated, go out. This room imports batches, for the rows of an update.
"""

from trainers.cost.cost_estimate import Machine, packed_row, training_cost

__all__ = ["Machine", "packed_row", "training_cost"]
