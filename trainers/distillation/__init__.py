"""Sequence-level distillation: runs the commands that make a student.

`steps` lists the commands and writes the student's corpus, `journal` records
finished steps, and `student` has its configuration and its comparison with the
teachers. This package imports `synthesis`, `data` and `scores`.
"""
