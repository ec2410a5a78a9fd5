"""Translates text on a running TensorFlow Serving over REST or gRPC.

Only gRPC imports TensorFlow.
"""
