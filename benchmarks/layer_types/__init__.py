"""Table 1 of the paper, measured: what `complexity.py` runs and writes.

Layer types and sizes come in, a page with figures goes out. It may import
harness, the model's layers and errors.
"""
