"""Commands that learn: train, evaluate, prepare data."""
