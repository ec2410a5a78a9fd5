import math

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from trainers.training.callbacks import TokenMeans

NAMES = ("loss", "perplexity", "accuracy")
# Loss, negative log-probability and accuracy of each token of a batch.
TOKENS = st.tuples(
    st.floats(0, 50), st.floats(0, 80), st.sampled_from([0.0, 1.0])
)
BATCHES = st.lists(st.lists(TOKENS, min_size=1, max_size=9), min_size=1)


def _figures(tokens):
    """What a step reports of a batch."""
    loss, plain, accuracy = (
        math.fsum(column) / len(tokens) for column in zip(*tokens)
    )
    return {
        "loss": loss,
        "perplexity": math.exp(plain),
        "accuracy": accuracy,
        "tokens": len(tokens),
        "learning_rate": 0.1,
    }


@given(BATCHES)
def test_every_token_weighs_alike(batches):
    means = TokenMeans()
    for batch in batches:
        means.add(_figures(batch))
    every = [token for batch in batches for token in batch]
    wanted = _figures(every)
    assert means.tokens == len(every)
    assert means.figures() == pytest.approx(
        {name: wanted[name] for name in NAMES}, rel=1e-9, abs=1e-12
    )


def test_by_hand():
    means = TokenMeans()
    means.add({"loss": 4, "perplexity": 2, "accuracy": 0.5, "tokens": 3})
    means.add({"loss": 8, "perplexity": 32, "accuracy": 0.1, "tokens": 1})
    assert means.tokens == 4
    # 2 * 2 * 2 * 32 is 4 ** 4.
    assert means.figures() == pytest.approx(
        {"loss": 5, "perplexity": 4, "accuracy": 0.4}
    )


def test_asked_in_between_it_counts_nothing_twice():
    asked, unasked = TokenMeans(), TokenMeans()
    for number in range(1, 5):
        batch = _figures([(number, 0.5 * number, 1.0)] * number)
        for means in (asked, unasked):
            means.add(batch)
        assert asked.tokens == sum(range(number + 1))
        asked.figures()
    assert asked.figures() == unasked.figures()


def test_of_no_token():
    means = TokenMeans()
    assert means.tokens == 0
    assert means.figures() == {"loss": 0, "perplexity": 1, "accuracy": 0}


def test_tensors_are_taken_and_numbers_given():
    """Numbers that JSON can hold."""
    means = TokenMeans()
    figures = _figures([(3.0, 2.0, 1.0)] * 5)
    means.add({name: tf.constant(x, tf.float32) for name, x in figures.items()})
    assert all(type(value) is float for value in means.figures().values())
    assert means.figures()["loss"] == pytest.approx(3.0)


class _Busy:
    """A figure that is not computed yet."""

    def __float__(self):
        raise AssertionError("waited for")


def test_adding_waits_for_no_step():
    TokenMeans().add(dict.fromkeys((*NAMES, "tokens"), _Busy()))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_stays_none(value):
    means = TokenMeans()
    means.add(_figures([(1.0, 1.0, 1.0)]))
    means.add({**_figures([(1, 1, 1)]), "loss": value, "perplexity": value})
    assert str(means.figures()["loss"]) == str(value)
    assert str(means.figures()["perplexity"]) == str(value)
    assert means.figures()["accuracy"] == 1
