"""Lines of files and standard streams for commands: reading, formats, flags.

Imports `common`; no TensorFlow.
"""
