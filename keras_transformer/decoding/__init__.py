"""Translating with a trained Transformer, in keras.ops alone.

Beam search and sampling know a model only as a step function; `translate` puts
them and a Transformer together. Ids come in and go out. This room imports
layers and the loss; a model is handed to it.
"""
