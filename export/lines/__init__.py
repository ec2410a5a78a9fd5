"""Lines of files and standard streams: reading, formats, command flags.

It imports `common` only, and no TensorFlow.
"""
