"""Translators as ONNX files, with the whole search inside: `python -m`."""
