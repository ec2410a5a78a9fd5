"""The paper's building blocks as Keras layers, each usable alone.

Section 3, sub-layer by sub-layer: `attention` (3.2), `feed_forward` (3.3),
`embedding` (3.4), `positions` (3.5), `residual`, and the stacks `encoder` and
`decoder` (3.1). Tensors and masks come in and go out. This room imports kernels
and the configuration.
"""
