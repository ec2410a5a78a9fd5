"""Tokenizers: text to ids and back, inside and outside a TensorFlow graph.

`tokenizer` is for models trained here, `pretrained_tokenizers` for imported
ones. `python_tokenizers` has both without TensorFlow, and reads and writes
`vocabulary.model`. They import `keras_transformer.config` only.
"""


def load_tokenizer(vocabulary):
    """Returns the tokenizer of a `vocabulary.model`'s bytes for Keras' backend.

    Raises ValueError for other bytes.
    """
    # Not at the top: JAX needs no TensorFlow, and clients need neither.
    import keras

    if keras.backend.backend() == "jax":
        from export.tokenizers.python_tokenizers import load_python_tokenizer

        return load_python_tokenizer(vocabulary)
    from export.tokenizers import pretrained_tokenizers

    return pretrained_tokenizers.load_tokenizer(vocabulary)
