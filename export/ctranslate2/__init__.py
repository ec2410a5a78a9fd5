"""Writes models for CTranslate2, and translates with them.

`ctranslate2_model` writes a folder and has the backend that runs it,
`argos_package` packs it for Argos Translate.
"""
