"""Commands that learn: train, evaluate, prepare data, reproduce Table 3.

Commands and what they share stand here; the rooms are `corpora`, `prepared`,
`batches`, `training`, `scores`, `pictures`, `reports` and `cost`. This floor
imports export and keras_transformer.
"""

# First of all: it keeps TensorFlow's start-up notes off the commands' output.
import export  # noqa: F401
