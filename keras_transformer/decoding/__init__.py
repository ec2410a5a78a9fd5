"""Beam search, sampling, scoring and alignment of token ids.

Searches take a step function; `translate` and `sampling` take a Transformer.
"""
