"""Text in, translations out, by a model in this process or an export.

`load` finds what a path names. Model directories and exported versions come in.
It imports the model and, for exports, server_runtime.
"""
