"""Commands that train, evaluate, prepare data and reproduce Table 3.

The modules of this package are the commands and what they share. Imports
export and keras_transformer.
"""

# First: it silences TensorFlow's start-up notes.
import export  # noqa: F401
