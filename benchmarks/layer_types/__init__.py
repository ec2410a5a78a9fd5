"""Measurements and report of `complexity.py` (Table 1 of the paper).

Imports `harness` and the model's layers.
"""
