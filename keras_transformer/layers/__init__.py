"""The paper's building blocks as Keras layers, each usable alone."""
