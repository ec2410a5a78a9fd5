"""What a parser has that a translator has not: words, counted on both sides.

This package imports `layers`, `decoding` and `transformer`, which know nothing
of words.
"""
