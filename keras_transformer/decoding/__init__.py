"""Beam search, sampling, scoring and alignment of token ids.

Beam search and sampling use a model through a step function; `translate` and
`sampling` apply them to a Transformer. This package imports `layers`,
`kernels`, `config` and the loss, but not the model.
"""
