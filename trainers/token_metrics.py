"""Metrics that weigh every target token alike, on any number of replicas."""

import keras
from keras import ops


class TokenMean(keras.metrics.Metric):
    """The mean over target tokens of something summed per batch.

    Args:
        name: of the metric.
        **kwargs: of `keras.metrics.Metric`.
    """

    def __init__(self, name="token_mean", **kwargs):
        super().__init__(name=name, **kwargs)
        self.total = self.add_variable((), "zeros", name="total")
        self.tokens = self.add_variable((), "zeros", name="tokens")

    def update_state(self, total, tokens):
        """Adds a batch: its sum and its number of tokens."""
        self.total.assign_add(total)
        self.tokens.assign_add(tokens)

    def result(self):
        """Returns the mean; 0 before the first token."""
        return self.total / ops.maximum(self.tokens, 1.0)


class TokenPerplexity(TokenMean):
    """exp of the mean negative log-probability per target token.

    Take it from the cross-entropy without label smoothing; with smoothing it
    would not be a perplexity.
    """

    def result(self):
        """Returns the perplexity; 1 before the first token."""
        return ops.exp(super().result())


class TokenMetrics:
    """What training reports: loss, perplexity and accuracy per token.

    Attributes:
        metrics: list of keras.metrics.Metric.
    """

    def __init__(self):
        self.metrics = [
            TokenMean(name="loss"),
            TokenPerplexity(name="perplexity"),
            TokenMean(name="accuracy"),
        ]

    def update(self, sums, tokens):
        """Adds a batch.

        Args:
            sums: dict of each metric's sum over the batch's target tokens.
            tokens: number of those tokens.
        """
        for metric in self.metrics:
            metric.update_state(sums[metric.name], tokens)
