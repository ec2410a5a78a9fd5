"""Tokenizers: text to ids and back, inside and outside a TensorFlow graph.

`tokenizer` is the one of models trained here, `pretrained_tokenizers` has those
of pretrained models, and `python_tokenizers` both without TensorFlow. `vocabulary_file` reads
and writes `vocabulary.model`. They import `keras_transformer.config` only.
"""
