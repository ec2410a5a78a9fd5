"""Writes models for CTranslate2, and translates with what was written.

It imports translators, tokenizers and the fields of `pretrained`.
"""
