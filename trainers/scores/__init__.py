"""Scores that say how they were made.

Translations and references come in, entries of scores.json go out. This room
imports corpora's EvaluationSet and no training.
"""
