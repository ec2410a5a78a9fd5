"""Lines of files and standard streams for commands: reading, formats, flags.

It imports `common`, and no TensorFlow.
"""
