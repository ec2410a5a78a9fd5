"""Tokenizers: text to ids and back, inside and outside a TensorFlow graph.

`tokenizer` is for models trained here, `pretrained_tokenizers` for imported
ones and those of several languages. `python_tokenizers` has all of them without
TensorFlow, and reads and writes `vocabulary.model`; `tags` splits the tags of
languages from a text.
"""

import importlib.util
import typing


def splits_in_python() -> bool:
    """Whether texts are split in Python: without TensorFlow and its text."""
    # Not at the top: clients need no Keras.
    import keras

    return (
        keras.backend.backend() != "tensorflow"
        or importlib.util.find_spec("tensorflow_text") is None
    )


def load_tokenizer(vocabulary: bytes) -> typing.Any:
    """Returns the tokenizers of a vocabulary's bytes for Keras' backend.

    Their attributes `source` and `target` are those of the sides. Raises
    ValueError for other bytes.
    """
    # Not at the top: JAX needs no TensorFlow, and clients need neither.
    if splits_in_python():
        from export.tokenizers.python_tokenizers import load_python_tokenizers

        return load_python_tokenizers(vocabulary)
    from export.tokenizers import pretrained_tokenizers

    return pretrained_tokenizers.load_tokenizer(vocabulary)
