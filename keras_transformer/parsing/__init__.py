"""Parsing models: Transformers whose positions encode words."""
