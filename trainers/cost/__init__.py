"""Estimates the cost of a training before it starts: `training_cost`."""
