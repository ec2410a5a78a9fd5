"""Asks a running TensorFlow Serving over REST or gRPC.

Lines come in, translations go out. This room imports what translators share
and the tensors of server_runtime, but no TensorFlow.
"""
