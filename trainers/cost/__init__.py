"""Estimates what a training costs before it begins.

`training_cost` is the entry point: parameters and FLOPs are counted exactly;
memory, seconds, energy and price are estimated. It imports `batches` for rows
of an update, and `reports` for tables.
"""

from trainers.cost.cost_estimate import packed_row, training_cost

__all__ = ["packed_row", "training_cost"]
