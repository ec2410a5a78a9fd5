"""Types of arguments and results, for annotations."""

import typing

# A tensor of Keras' backend. Shapes and dtypes stand in docstrings.
Tensor: typing.TypeAlias = typing.Any
# What Keras converts to one: also NumPy arrays and nested lists.
TensorLike: typing.TypeAlias = typing.Any
Shape: typing.TypeAlias = tuple[int | None, ...]
# A Transformer, or an Ensemble or another object with its methods.
TransformerLike: typing.TypeAlias = typing.Any
