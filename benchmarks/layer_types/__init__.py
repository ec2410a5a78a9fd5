"""What is particular to `complexity.py`: Table 1 of the paper, measured.

Layers, lengths and widths come in, each layer waits in a process of its own,
and a page with figures goes out. This room imports harness, the model's layers
and errors.
"""
