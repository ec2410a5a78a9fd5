"""Pretrained models, in and out."""
