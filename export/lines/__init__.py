"""Lines of files and standard streams: reading, formats, command flags.

Needs no TensorFlow.
"""
