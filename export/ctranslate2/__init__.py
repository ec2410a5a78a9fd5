"""Writes models for CTranslate2, and translates with them."""
