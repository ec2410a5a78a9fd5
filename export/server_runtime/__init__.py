"""Loads and runs a SavedModel as TensorFlow Serving does.

TensorFlow's C library and the files of a version, read without Python's
TensorFlow or Keras: this room imports neither, nor any other room.
"""
