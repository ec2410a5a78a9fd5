"""The paper's building blocks as Keras layers, each usable alone.

Section 3: `attention` (3.2), `feed_forward` (3.3), `embedding` and positions
(3.4 and 3.5), `encoder` and `decoder` (3.1).
"""
