"""Attention for TensorBoard while a model is trained.

`summaries` is the Keras callback, `attention_pictures` draws, `event_writer`
writes event files without TensorFlow.
"""
