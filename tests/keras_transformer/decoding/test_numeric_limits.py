"""Every number of a search, at the ends of what floats and ints can be.

It is refused, or the result is that of float64 arithmetic.
"""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from keras import ops

import keras_transformer as kt
from keras_transformer.config import MAX_BEAMS
from keras_transformer.decoding.sampling import _sample_tokens
from keras_transformer.decoding.search_config import clip_lengths
from tests.keras_transformer import helpers

EXTREMES = [
    *(math.nan, math.inf, -math.inf, -0.0, -1.0, 5e-324, 1e-45, 1e-38, 1e-7),
    *(1 - 1e-9, 1 + 1e-9, 1e38, 1e39, 1e300),
    *(-1, 0, 1, 2**31 - 1, 2**31, 2**63, 10**400, True, None, "1", (1,)),
    *(np.float32(0.5), np.float64(2.0), np.int8(3), [2]),
]
NUMBERS = st.sampled_from([0.5, 0.75, 0.9, 2, 3, 4, *EXTREMES])
VOCABULARY = 7
NOISE = np.linspace(0, 1, 33, endpoint=False).astype("float32")


def reference_shares(logits, config):
    """Returns ids, likeliest first, and float64 probabilities of a draw."""
    logits = np.asarray(logits, "float64")
    logits[list(config.suppress_tokens)] = -np.inf
    ids = np.argsort(-logits, kind="stable")[: config.top_k or None]
    with np.errstate(over="ignore"):
        scaled = (logits - logits.max()) / np.float64(config.temperature)
    shares = np.exp(scaled[ids] - scaled[ids[0]])
    shares /= shares.sum()
    before = np.cumsum(shares) - shares
    before[0] = 0
    shares = np.where(before < config.top_p, shares, 0)
    return ids, shares / shares.sum()


@settings(max_examples=30)
@given(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("temperature", "top_k", "top_p"), NUMBERS)
    ),
    st.integers(0, 99),
)
@example({"top_k": 3, "top_p": 0.8}, 0)
@example({"top_k": 4, "top_p": 0.6, "temperature": 2.0}, 1)
@example({"top_p": 0.75, "temperature": 3.0}, 2)
@example({"temperature": 1e-30}, 0)
@example({"top_p": 1e-30}, 0)
@example({"temperature": 1e30, "top_p": 1.0}, 1)
def test_samples_are_those_of_float64(numbers, seed):
    try:
        config = kt.SamplingConfig(**numbers, suppress_tokens=(1,))
    except ValueError as error:
        assert str(error).split()[0] in numbers
        return
    logits = np.random.default_rng(seed).normal(size=VOCABULARY) * 3
    logits = logits.astype("float32")
    ids, shares = reference_shares(logits, config)
    repeated = np.broadcast_to(logits, (1, len(NOISE), VOCABULARY))
    sampled = _sample_tokens(
        ops.convert_to_tensor(repeated),
        ops.convert_to_tensor(NOISE[None]),
        config,
    )
    ends = np.cumsum(shares)
    for noise, token in zip(NOISE, helpers.to_numpy(sampled)[0]):
        place = list(ids).index(token)
        assert shares[place] > 0
        assert ends[place] - shares[place] - 1e-5 <= noise <= ends[place] + 1e-5


def test_lengths():
    for lengths, expected in (
        (np.array([255, 0, 1, 2], "uint8"), [3, 1, 1, 2]),
        (np.array([2**64 - 1, 1, 1, 1], "uint64"), [3, 1, 1, 1]),
        (np.array([-(2**63), 2, -1, 2**63 - 1], "int64"), [1, 2, 1, 3]),
    ):
        found = helpers.to_numpy(clip_lengths("max_lengths", lengths, 3))
        np.testing.assert_array_equal(found, expected)
    for lengths in ([math.nan], [1.0, 2.0], [10**400]):
        with pytest.raises(ValueError, match="max_lengths must be integers"):
            clip_lengths("max_lengths", lengths, 3)


@pytest.mark.parametrize(
    "kind, name, wrong",
    [
        (kt.BeamSearchConfig, "beam_size", [0, MAX_BEAMS + 1]),
        (kt.BeamSearchConfig, "n_best", [5]),
        (kt.BeamSearchConfig, "stop_criterion", ["soon"]),
        (kt.BeamSearchConfig, "length_penalty", ["none"]),
        (kt.SamplingConfig, "temperature", [0.0]),
        (kt.SamplingConfig, "suppress_tokens", [(-1,), (0.5,), (True,)]),
    ],
)
def test_refuses(kind, name, wrong):
    for value in wrong:
        with pytest.raises(ValueError, match=name):
            kind(**{name: value})
