"""Synthetic training data: lines paired with their filtered translations.

The entry point is `job.synthesize`; only the main process writes. Imports
`trainers.scores`.
"""
