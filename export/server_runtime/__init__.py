"""Reads exported versions and runs them as TensorFlow Serving does.

It imports neither Keras nor any other subpackage.
"""
