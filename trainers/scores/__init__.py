"""Scores that say how they were made.

Translations and references, or trees, come in; entries of scores.json go out.
This room imports corpora's EvaluationSet and no training.
"""
