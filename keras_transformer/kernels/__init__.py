"""What makes the layers fast on a CPU, and nothing of the paper.

Each function stands in for a plain formula, gives the same numbers but for
rounding, and says what it gains. Tensors come in and go out; this room imports
Keras alone.
"""
