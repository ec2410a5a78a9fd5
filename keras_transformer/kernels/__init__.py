"""What makes the layers fast on a CPU, and nothing of the paper.

Each function stands in for a plain formula and gives the same numbers but for
rounding. Its docstring says why it is there, what it gains of a training step
of the base size (4,096 positions; docs/measured/training_step.md) and what to
write in its place to take it out. Tensors come in and go out; this room
imports Keras alone.
"""
