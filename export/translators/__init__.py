"""Translates lists of texts.

A `Translator` cuts lists of texts into batches, whatever runs the model: a
`Backend`. `ModelBackend` splits texts itself, `GraphBackend` in a graph of
TensorFlow and `IdsBackend` in Python. `SignatureBackend` passes texts to the
signatures of an export or server. The functions from text to translations, in
`TextGraph`, are those of `GraphBackend` and of the signatures of an export.
"""
