"""Estimates the cost of a training before it starts.

`training_cost` is the entry point: parameters and FLOPs are counted exactly;
memory, seconds, energy and price are estimated.
"""

from trainers.cost.cost_estimate import packed_row, training_cost

__all__ = ["packed_row", "training_cost"]
