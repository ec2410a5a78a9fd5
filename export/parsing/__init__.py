"""Parsing: trees in brackets, and the symbols that a model says them in.

Trees are `nltk.Tree`s that `trees` has normalised; `words` splits a sentence's
words into pieces. This room imports lines' reading of files and, in `words`
alone, the tokenizer with its TensorFlow.
"""
