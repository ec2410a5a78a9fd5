"""Beam search, sampling, scoring and alignment of token ids.

Searches use a model through a step function; `translate` and `sampling` apply
them to a Transformer.
"""
