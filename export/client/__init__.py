"""Translates on a running TensorFlow Serving over REST or gRPC.

Lines come in, translations go out. It imports translators and lines; only gRPC
imports TensorFlow.
"""
