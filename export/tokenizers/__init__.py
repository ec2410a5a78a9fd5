"""Tokenizers: text to ids and back, inside and outside a TensorFlow graph.

`tokenizer` is for models trained here, `pretrained_tokenizers` for imported
ones. `python_tokenizers` has both without TensorFlow, and reads and writes
`vocabulary.model`. They import `keras_transformer.config` only.
"""
