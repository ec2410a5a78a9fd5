"""Scores of translations and trees, with signature, interval and provenance.

Translations or trees and their references come in, entries of scores.json go
out. It imports `data` for EvaluationSet, and no training.
"""
