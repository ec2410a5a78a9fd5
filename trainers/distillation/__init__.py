"""A student of teachers: what stands between the commands that make it.

The commands (`steps`) with the corpus, which are done (`journal`), and the
student (`student`). This package imports synthesis, corpora and scores.
"""
