"""Translates lists of texts with models in this process.

`TextTranslator` is the interface of every translator; `Translator` translates
with a model directory.
"""
