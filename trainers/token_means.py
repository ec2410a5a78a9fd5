"""Means over target tokens, of any number of batches."""

import math


class TokenMeans:
    """Loss, perplexity and accuracy, every target token weighing alike.

    What is added is kept as it is until it is asked for, so that a step need
    not be waited for.

    Perplexity is exp of the mean negative log-probability without label
    smoothing; with smoothing it would not be a perplexity.
    """

    def __init__(self):
        self._waiting = []
        self._tokens = 0.0
        self._sums = {"loss": 0.0, "perplexity": 0.0, "accuracy": 0.0}

    def add(self, figures):
        """Adds a batch: its means, and `tokens`, how many they are over."""
        self._waiting.append(figures)

    @property
    def tokens(self):
        """Number of target tokens so far, float."""
        self._take()
        return self._tokens

    def figures(self):
        """Returns a dict of the three means; of no token 0, 1 and 0."""
        self._take()
        tokens = max(self._tokens, 1.0)
        means = {name: total / tokens for name, total in self._sums.items()}
        return {**means, "perplexity": math.exp(means["perplexity"])}

    def _take(self):
        for figures in self._waiting:
            tokens = float(figures["tokens"])
            self._tokens += tokens
            for name in self._sums:
                value = float(figures[name])
                if name == "perplexity":
                    value = math.log(value)
                self._sums[name] += tokens * value
        self._waiting = []
