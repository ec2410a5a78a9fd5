"""Estimates the cost of a training before it starts.

`cost_estimate.training_cost` is the entry point: parameters and FLOPs are
counted exactly; memory, seconds, energy and price are estimated.
"""
