"""Translation with a trained Transformer, in keras.ops alone.

Beam search and sampling know a model only as a step function; `translate` and
`sampling` apply them to a Transformer. Inputs and outputs are token ids. This
package imports `layers`, `kernels`, `config` and the loss; it is given a model.
"""
