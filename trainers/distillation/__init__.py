"""Sequence-level distillation: runs the commands that train a student.

Imports `synthesis`, `data` and `scores`.
"""
