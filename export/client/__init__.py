"""Translates text on a running TensorFlow Serving over REST or gRPC.

It imports translators and lines; only gRPC imports TensorFlow.
"""
