"""Commands that train, evaluate, prepare data and reproduce Table 3.

Subpackages hold the shared code. Imports export and keras_transformer.
"""

# Imported first to silence TensorFlow's start-up messages.
import export  # noqa: F401
