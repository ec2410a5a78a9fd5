"""Scores translations and trees, with signature, interval and provenance.

Translations or trees are scored against references, and the results become
entries of scores.json.
"""
