"""Commands that read lines and write lines.

Files, standard streams and their flags; text and translations come in and go
out. This room imports no translator and no TensorFlow.
"""
