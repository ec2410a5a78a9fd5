import numpy as np
import pytest

from trainers.token_metrics import TokenMetrics

# Sums and tokens of batches as different as padding makes them.
BATCHES = [(120.0, 100), (3.0, 1), (0.0, 0), (40.0, 7)]


def _results(metrics):
    return {each.name: float(each.result()) for each in metrics.metrics}


def _update(metrics, scale, tokens):
    sums = {"loss": scale, "perplexity": scale / 2, "accuracy": scale / 4}
    metrics.update(
        {name: np.float32(value) for name, value in sums.items()},
        np.float32(tokens),
    )


def test_every_token_weighs_the_same():
    metrics = TokenMetrics()
    for total, tokens in BATCHES:
        _update(metrics, total, tokens)
    totals, tokens = np.array(BATCHES).sum(axis=0)
    assert _results(metrics) == {
        "loss": pytest.approx(totals / tokens),
        "perplexity": pytest.approx(np.exp(totals / 2 / tokens)),
        "accuracy": pytest.approx(totals / 4 / tokens),
    }


def test_before_the_first_token_and_after_a_reset_nothing_is_kept():
    metrics = TokenMetrics()
    nothing = {"loss": 0.0, "perplexity": 1.0, "accuracy": 0.0}
    assert _results(metrics) == nothing
    _update(metrics, 7.0, 2)
    for metric in metrics.metrics:
        metric.reset_state()
    assert _results(metrics) == nothing
