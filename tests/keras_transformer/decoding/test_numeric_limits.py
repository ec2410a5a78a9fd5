"""Every number of a search, at the ends of what floats and ints can be.

It is refused, or the result is that of float64 arithmetic.
"""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding.sampling import _draw
from keras_transformer.fields import MAX_BEAMS
from keras_transformer.loss import LabelSmoothedCrossEntropy
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding.beam_tables import (
    plain_beam_search,
    random_tables,
    reader,
    search_with,
)

EXTREMES = [
    *(math.nan, math.inf, -math.inf, -0.0, 0.0, -1.0, 5e-324, 1e-320, 1e-45),
    *(1e-38, 1e-7, 0.3, 1 - 1e-9, 1.0, 1 + 1e-9, 2.5, 1e38, 1e39, 1e300),
    *(-1, 0, 1, 3, 2**31 - 1, 2**31, 2**63, 10**400, True, None, "1", (1,)),
    *(np.float32(0.5), np.float64(2.0), np.int64(2), np.int8(3), [2]),
]
NUMBERS = (int, float)
SAMPLING = [
    field.name
    for field in dataclasses.fields(kt.SamplingConfig)
    if field.type in NUMBERS
]
SEARCH = [
    field.name
    for field in dataclasses.fields(kt.BeamSearchConfig)
    if field.type in NUMBERS
]
VOCABULARY = 7
CHANCES = np.linspace(0, 1, 33, endpoint=False).astype("float32")
CORPUS = random_tables(3, 4, 3)


def reference_shares(logits, rules):
    """Returns ids, likeliest first, and float64 probabilities of a draw."""
    logits = np.asarray(logits, "float64")
    logits[list(rules.never)] = -np.inf
    ids = np.argsort(-logits, kind="stable")[: rules.top_k or None]
    with np.errstate(over="ignore"):
        scaled = (logits - logits.max()) / np.float64(rules.temperature)
    shares = np.exp(scaled[ids] - scaled[ids[0]])
    shares /= shares.sum()
    before = np.cumsum(shares) - shares
    before[0] = 0
    shares = np.where(before < rules.top_p, shares, 0)
    return ids, shares / shares.sum()


@settings(max_examples=150, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={name: st.sampled_from(EXTREMES) for name in SAMPLING},
    ),
    st.integers(0, 99),
)
@example({"temperature": 1e-38}, 0)
@example({"temperature": 1e-45}, 0)
@example({"top_p": 1e-45}, 0)
@example({"temperature": 1e300, "top_p": 1.0}, 1)
def test_draws_are_those_of_float64(numbers, seed):
    try:
        rules = kt.SamplingConfig(**numbers, never=(1,))
    except ValueError as error:
        assert str(error).split()[0] in numbers
        return
    logits = np.random.default_rng(seed).normal(size=VOCABULARY) * 3
    logits = logits.astype("float32")
    ids, shares = reference_shares(logits, rules)
    repeated = np.broadcast_to(logits, (1, len(CHANCES), VOCABULARY))
    drawn = _draw(
        ops.convert_to_tensor(repeated),
        ops.convert_to_tensor(CHANCES[None]),
        rules,
    )
    ends = np.cumsum(shares)
    for chance, token in zip(CHANCES, helpers.to_numpy(drawn)[0]):
        place = list(ids).index(token)
        assert shares[place] > 0
        assert (
            ends[place] - shares[place] - 1e-5 <= chance <= ends[place] + 1e-5
        )


@settings(max_examples=80, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={name: st.sampled_from(EXTREMES) for name in SEARCH},
    ),
    st.sampled_from(["gnmt", "power"]),
)
@example({"alpha": 8.0}, "power")
@example({"alpha": 5e-324}, "gnmt")
@example({"alpha": 8.0, "beam_size": 1}, "gnmt")
def test_searches_are_those_of_float64(numbers, kind):
    try:
        rules = kt.BeamSearchConfig(**numbers, length_penalty=kind)
    except ValueError as error:
        assert str(error).split()[0] in numbers
        return
    limits = np.full(len(CORPUS), 3, "int32")
    tokens, scores = search_with(CORPUS, kt.Constraints(limits), 3, rules)
    for table, its_tokens, its_scores in zip(CORPUS, tokens, scores):
        arguments = 3, rules.beam_size, rules.alpha, kind
        expected = plain_beam_search(reader(table), *arguments)
        wanted = expected[: rules.n_best or rules.beam_size]
        np.testing.assert_allclose(
            its_scores[: len(wanted)], [score for _, score in wanted], 2e-5
        )
        best = its_tokens[0]
        assert tuple(best[best > 0]) == tuple(
            word for word in wanted[0][0] if word
        )


@pytest.mark.parametrize("value", EXTREMES, ids=repr)
def test_a_configuration_keeps_what_its_rules_take(value):
    """Its fields of decoding are refused where the search would refuse."""
    for name in ("beam_size", "alpha"):
        try:
            rules = kt.BeamSearchConfig(**{name: value})
        except ValueError:
            with pytest.raises(ValueError, match=name):
                helpers.config(**{name: value})
        else:
            if 0 < value < 1e-30:
                # Nothing in float32, so no configuration has it.
                with pytest.raises(ValueError, match=name):
                    helpers.config(**{name: value})
                continue
            config = helpers.config(**{name: value})
            assert kt.search_rules(config).penalty(3) == rules.penalty(3)
    try:
        config = helpers.config(max_output_extra=value)
    except ValueError as error:
        assert "max_output_extra" in str(error)
    else:
        assert 0 <= config.max_output_extra <= 1_000_000


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
    def found(values):
        full = np.full(4, 3, "int32")
        constraints = kt.Constraints(full)._replace(**{name: values})
        tables = ops.convert_to_tensor(CORPUS)
        step = _table_step(tables)
        return kt.beam_search(step, (), constraints, 3, kt.BeamSearchConfig(2))[
            :2
        ]

    if clipped is None:
        with pytest.raises(ValueError, match="integers"):
            found(lengths)
        return
    wanted = found(np.array(clipped, "int32"))
    for one, other in zip(found(lengths), wanted):
        np.testing.assert_array_equal(
            helpers.to_numpy(one), helpers.to_numpy(other)
        )


def _table_step(tables):
    def step(tokens, parents, index, state):
        del tokens, parents
        return ops.take(tables, [[0, 1]], axis=1)[:, 0], state

    return step


def test_a_search_needs_capacity():
    with pytest.raises(ValueError, match="max_length must be at least 1"):
        kt.beam_search(None, (), [1], 0, kt.BeamSearchConfig(2))


@pytest.mark.parametrize("never", [(-1,), (0.5,), ("1",), (True,)])
def test_suppressed_ids_are_ids(never):
    for rules in (kt.BeamSearchConfig, kt.SamplingConfig):
        with pytest.raises(ValueError, match="never"):
            rules(never=never)


def test_the_widest_beam_is_that_of_one_candidate_after_the_other():
    assert kt.BeamSearchConfig(MAX_BEAMS).beam_size == MAX_BEAMS
    with pytest.raises(ValueError, match="from 1 to 1,000"):
        kt.BeamSearchConfig(MAX_BEAMS + 1)


@pytest.mark.parametrize("value", EXTREMES, ids=repr)
def test_schedules_and_losses(value):
    """Their rates and values are finite, or they are refused."""
    for make in (
        lambda: kt.TransformerSchedule(value),
        lambda: kt.TransformerSchedule(8, value),
        lambda: kt.TransformerSchedule(8, 10, value),
        lambda: kt.Cooldown(kt.TransformerSchedule(8), value, 1),
        lambda: kt.Cooldown(kt.TransformerSchedule(8), 100, value),
    ):
        try:
            schedule = make()
        except (ValueError, TypeError):
            continue
        rates = [float(schedule(step)) for step in (0, 1, 99, 10**7)]
        assert np.isfinite(rates).all() and min(rates) >= 0
    try:
        loss = LabelSmoothedCrossEntropy(value)
    except (ValueError, TypeError):
        return
    assert np.isfinite(float(loss(np.ones((1, 2)), np.zeros((1, 2, 5)))))
