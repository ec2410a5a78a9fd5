"""Tokenizers: text to ids and back, inside and outside a TensorFlow graph.

`tokenizer` has the one of models trained here, `pretrained_tokenizers` those of
pretrained models, and `python_tokenizers` both without TensorFlow.
`vocabulary_file` reads and writes `vocabulary.model`, and `opus_normalization`
is OPUS-MT's. They import `keras_transformer.config` only.
"""
