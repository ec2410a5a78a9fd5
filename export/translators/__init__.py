"""Translates lists of texts with models in this process.

`TextTranslator` is the interface of every translator of texts. Of its bases
`ModelTranslator` tokenizes texts itself: `Translator` for a Keras model.
`SignatureTranslator` passes texts to signatures: `ExportedTranslator` to those
of a SavedModel here, `RemoteTranslator` to those of a server. `GraphTranslator`
translates ids within a graph, for `Translator` and for `ServedTranslator`, the
tf.Module whose methods are an export's signatures.
"""
