"""Makes exports for TensorFlow Serving and compares them with their models.

It imports translators and parsing and server_runtime.
"""
