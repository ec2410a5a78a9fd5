"""Sequence-level distillation: runs the commands that train a student.

`steps` lists the commands and writes the student's corpus, `journal` records
finished steps, and `student` configures the student and compares it with its
teachers. Imports `synthesis`, `data` and `scores` of `trainers`.
"""
