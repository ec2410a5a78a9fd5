"""Translates lists of texts with models of this process.

`TextTranslator` is the interface of every translator, `Translator` the one of a
model directory. Imports the model and `tokenizers`, `lines`, `common`.
"""
