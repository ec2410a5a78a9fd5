"""Translates lists of texts: models of this process, and what others share.

`Translator` has a model directory; `TextTranslator` is the interface of every
translator. It imports the model and `tokenizers`, `lines`, `common`.
"""
