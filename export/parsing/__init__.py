"""Parsing: trees in brackets, and the symbols that a model says them in.

Trees are `nltk.Tree`s that `trees` has normalised. This room imports lines'
reading of files, but no translator, no Keras and no TensorFlow.
"""
