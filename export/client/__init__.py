"""Asks a running TensorFlow Serving over REST or gRPC.

Lines come in, translations go out. It imports translators; only gRPC imports
TensorFlow.
"""
