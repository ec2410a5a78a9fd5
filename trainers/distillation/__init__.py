"""A student of teachers: what stands between the commands that make it.

The student's configuration (`student`), the corpus it learns from (`mixture`),
the steps and which are done (`steps`, `journal`), and how it compares with its
teachers (`comparison`). This room imports synthesis, corpora and scores.
"""
