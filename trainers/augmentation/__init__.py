"""Changed training pairs: text to copy, and noise as people type it.

`copies` adds text that a translation has to copy, `noise` capitals, typing
errors and other kinds, with `word_pairs` for words alone.
"""
