"""Parsing: trees in brackets, the symbols that say them, and the parser.

Trees are `nltk.Tree`s that `trees` has normalised; `penn_tokens` splits raw
text into words, `words` those into pieces, `parser` finds the best tree over
them; `tree_lines` and `drawing` show it. Sentences come in, trees go out. This
room imports lines and translators; only `words` and `parser` need TensorFlow.
"""
