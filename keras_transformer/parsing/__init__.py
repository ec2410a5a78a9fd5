"""Parsing models: Transformers whose positions encode words.

This package imports `layers`, `decoding` and `transformer`, which do not depend
on it.
"""
