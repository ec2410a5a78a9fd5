"""Parsing: trees in brackets, the symbols that say them, and the parser.

Trees are `nltk.Tree`s that `trees` has normalised; `words` splits a sentence's
words into pieces, `parser` finds the best tree over them. Sentences come in,
trees go out. This room imports lines and translators; `trees` and `linear` need
no TensorFlow.
"""
