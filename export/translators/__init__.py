"""Translates lists of texts with models in this process.

`TextTranslator` is the interface of every translator of texts. It has two
abstract subclasses. `ModelTranslator` tokenizes texts itself: its `Translator`
runs a Keras model. `SignatureTranslator` passes texts to signatures: its
`ExportedTranslator` to those of a SavedModel in this process, and its
`RemoteTranslator` to those of a server. `GraphTranslator` is none of these: it
translates ids within a graph, for `Translator` and for `ServedTranslator`, the
tf.Module whose methods become the signatures of an export.
"""
