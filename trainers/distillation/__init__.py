"""Sequence-level distillation: runs the commands that train a student.

`steps` has the student's configuration, corpus and commands; `journal` runs
these and records what is finished. Imports `synthesis`, `data` and `scores`.
"""
