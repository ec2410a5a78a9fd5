"""Sequence-level distillation: runs the commands that train a student.

`steps` has the student's configuration, its corpus, and the journal of steps.
"""
