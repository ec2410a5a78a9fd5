"""A student of teachers: what stands between the commands that make it.

The commands (`steps`) and which are done (`journal`), the student's
configuration (`student`), its corpus (`mixture`), and how it compares with its
teachers (`comparison`). This package imports synthesis, corpora and scores.
"""
