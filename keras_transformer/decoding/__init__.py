"""Translation with a trained Transformer, in keras.ops alone.

Beam search and sampling know a model only as a step function; `translate` and
`sampling` apply them to a Transformer. Inputs and outputs are token ids.
"""
