"""Scores translations and trees; the results are entries of scores.json."""
