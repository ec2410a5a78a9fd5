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
from keras_transformer.decoding.sampling import _sample_tokens
from keras_transformer.fields import MAX_BEAMS
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding import beam_tables as bt

EXTREMES = [
    *(math.nan, math.inf, -math.inf, -0.0, -1.0, 5e-324, 1e-45, 1e-38, 1e-7),
    *(1 - 1e-9, 1 + 1e-9, 1e38, 1e39, 1e300),
    *(-1, 0, 1, 2**31 - 1, 2**31, 2**63, 10**400, True, None, "1", (1,)),
    *(np.float32(0.5), np.float64(2.0), np.int8(3), [2]),
]
VOCABULARY = 7
NOISE = np.linspace(0, 1, 33, endpoint=False).astype("float32")
TABLES = bt.random_tables(3, 4, 3)


def numbers_for(*names):
    """Some of these settings, each usual or extreme."""
    usual = st.sampled_from([0.5, 0.75, 0.9, 2, 3, 4])
    numbers = usual | st.sampled_from(EXTREMES)
    return st.fixed_dictionaries({}, optional={name: numbers for name in names})


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


@settings(max_examples=100)
@given(
    numbers_for("samples", "temperature", "top_k", "top_p"), st.integers(0, 99)
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


@settings(max_examples=30)
@given(
    numbers_for("beam_size", "alpha", "n_best", "max_extra_tokens"),
    st.sampled_from(["gnmt", "power"]),
)
@example({"alpha": 8.0}, "power")
@example({"alpha": 5e-324}, "gnmt")
@example({"alpha": 8.0, "beam_size": 1}, "gnmt")
def test_searches_are_those_of_float64(numbers, kind):
    try:
        config = bt.config(**numbers, length_penalty=kind)
    except ValueError as error:
        assert str(error).split()[0] in numbers
        return
    tokens, scores = bt.search(TABLES, [3] * len(TABLES), 3, config)
    for row, table in enumerate(TABLES):
        log_probs = bt.reader(table)
        expected = bt.plain_beam_search(
            *(log_probs, 3, config.beam_size, config.alpha, kind)
        )
        wanted = expected[: config.n_best or config.beam_size]
        np.testing.assert_allclose(
            scores[row, : len(wanted)], [score for _, score in wanted], 2e-5
        )
        assert bt.as_tuple(tokens[row, 0]) == wanted[0][0]


@pytest.mark.parametrize("name", ["beam_size", "alpha", "max_extra_tokens"])
def test_a_model_configuration_takes_what_a_search_takes(name):
    for value in EXTREMES:
        try:
            expected = kt.BeamSearchConfig(**{name: value})
            # Nothing in float32, so no model configuration has it.
            assert not 0 < value < 1e-30
        except (ValueError, AssertionError):
            with pytest.raises(ValueError, match=name):
                helpers.config(**{name: value})
        else:
            config = helpers.config(**{name: value})
            found = kt.BeamSearchConfig.from_config(config)
            assert getattr(found, name) == getattr(expected, name)


@pytest.mark.parametrize(
    "lengths, clipped",
    [
        ([2**40, 1, 2, 3], [3, 1, 2, 3]),
        (np.array([255, 0, 1, 2], "uint8"), [3, 1, 1, 2]),
        (np.array([2**64 - 1, 1, 1, 1], "uint64"), [3, 1, 1, 1]),
        (np.array([-(2**63), 2, -1, 2**63 - 1], "int64"), [1, 2, 1, 3]),
        ([math.nan] * 4, None),
        ([1e38, 1.0, 2.0, 3.0], None),
        ([10**400, 1, 1, 1], None),
    ],
)
@pytest.mark.parametrize("name", ["max_lengths", "min_lengths"])
def test_lengths(lengths, clipped, name):
    def find(values):
        constraints = kt.Constraints(np.full(4, 3, "int32"))
        constraints = constraints._replace(**{name: values})
        step = bt.step_of(ops.convert_to_tensor(TABLES))
        start = ops.zeros((4, 2), "int32")
        return kt.beam_search(step, start, constraints, 3, bt.config(2))

    if clipped is None:
        with pytest.raises(ValueError, match=name):
            find(lengths)
    else:
        bt.assert_same(find(lengths), find(np.array(clipped, "int32")))


@pytest.mark.parametrize(
    "wrong",
    [
        *({"suppress_tokens": ids} for ids in [(-1,), (0.5,), ("1",), (True,)]),
        {"beam_size": 0},
        {"beam_size": MAX_BEAMS + 1},
        {"alpha": -0.1},
        {"n_best": 5},
        {"stop_criterion": "soon"},
        {"length_penalty": "none"},
        {"samples": 0},
        {"temperature": 0.0},
        {"top_k": -1},
        {"top_p": 0.0},
    ],
    ids=str,
)
def test_refuses(wrong):
    (name,) = wrong
    for kind in (kt.BeamSearchConfig, kt.SamplingConfig):
        if name in kind.__dataclass_fields__:
            with pytest.raises(ValueError, match=name):
                kind(**wrong)
