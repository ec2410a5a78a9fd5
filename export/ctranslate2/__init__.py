"""Writes models for CTranslate2, and translates with them.

It imports translators, tokenizers and the fields of `pretrained`.
"""
