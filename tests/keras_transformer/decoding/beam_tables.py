"""Made-up models for beam search, and two searches to compare it with.

A table gives the logits after every prefix over a vocabulary of 5 ids, of
which 3 ends. A prefix is a number: the empty one 0, and prefix p followed by
word w 5 p + w + 1. The fake model carries the number of each beam's prefix as
its state and takes it from the parent, so a wrong parent shows.
"""

import functools

import keras
import numpy as np
from hypothesis import strategies as st
from keras import ops, tree

import keras_transformer as kt
from tests.keras_transformer import helpers
from tests.keras_transformer.reference import length_penalty

VOCABULARY = 5
END = 3
IMPOSSIBLE = -1e9
SEEDS = st.integers(0, 2**32 - 1)
# An example costs its many small operations, however many sentences it has.
SENTENCES = 48
CAPACITY = 4

Hypothesis = tuple[tuple[int, ...], float]


def number_of(prefix) -> int:
    number = 0
    for word in prefix:
        number = VOCABULARY * number + word + 1
    return number


def prefixes(max_length: int) -> int:
    """The number of prefixes shorter than `max_length`."""
    return (VOCABULARY**max_length - 1) // (VOCABULARY - 1)


def random_tables(seed: int, sentences: int, max_length: int) -> np.ndarray:
    """Logits [B, prefixes, V], from almost uniform to almost certain."""
    generator = np.random.default_rng(seed)
    shape = (sentences, prefixes(max_length), VOCABULARY)
    sharpness = generator.choice([0.3, 1.0, 3.0, 8.0], (sentences, 1, 1))
    return (sharpness * generator.normal(size=shape)).astype("float32")


def generate(seed, grammar=None):
    """Tables, and Constraints: lengths, prefixes of 0 to 2 words, grammars.

    Some grammars allow no word, some no end.
    """
    generator = np.random.default_rng(seed)
    maxima = generator.integers(1, CAPACITY + 1, SENTENCES)
    minima = generator.integers(0, CAPACITY + 2, SENTENCES)
    # Words are 1, 2 and 4: 0 is padding and 3 ends.
    prefixes = generator.choice([1, 2, 4], (SENTENCES, 2))
    prefixes[generator.random(SENTENCES) < 0.4, 1] = 0
    prefixes[generator.random(SENTENCES) < 0.5] = 0
    state = ()
    if grammar:
        shape = (SENTENCES, 3, VOCABULARY)
        share = generator.choice([0.3, 0.6, 0.9], (SENTENCES, 1, 1))
        state = {
            "at": np.zeros(SENTENCES, "int32"),
            "allowed": generator.random(shape) < share,
            "next": generator.integers(0, 3, shape).astype("int32"),
        }
    constraints = kt.Constraints(maxima, minima, prefixes, state)
    return random_tables(seed, SENTENCES, CAPACITY), constraints


class Automaton:
    """A kt.Grammar whose tables are part of its state.

    A sentence has a few states: which words each allows, the end among them,
    and the state after each word.
    """

    def allowed(self, state):
        at = state["at"][..., None, None]
        return ops.take_along_axis(state["allowed"], at, axis=2)[:, :, 0]

    def advance(self, state, tokens):
        at = state["at"][..., None, None]
        row = ops.take_along_axis(state["next"], at, axis=2)[:, :, 0]
        at = ops.take_along_axis(row, tokens[..., None], axis=2)[..., 0]
        return {**state, "at": at}


AUTOMATON = Automaton()


def config(*args, **kwargs):
    """A BeamSearchConfig that suppresses no token of the tables."""
    return kt.BeamSearchConfig(
        *args, **{"suppress_tokens": (), "stop_criterion": "exact", **kwargs}
    )


def step_of(tables):
    """The step function of the tables [B, prefixes, V], and its state."""

    def step(tokens, parents, index, numbers):
        numbers = ops.take_along_axis(numbers, parents, axis=1)
        numbers = ops.where(index > 0, VOCABULARY * numbers + tokens + 1, 0)
        logits = ops.take_along_axis(tables, numbers[..., None], axis=1)
        return logits, numbers

    return step


@functools.cache
def _search_of(max_length, search_config):
    def run(tables, constraints):
        shape = (ops.shape(tables)[0], search_config.beam_size)
        return kt.beam_search(
            step_of(tables),
            ops.zeros(shape, dtype="int32"),
            constraints,
            max_length,
            search_config,
        )[:2]

    return helpers.jitted(run)


def search(tables, constraints, max_length, search_config):
    """`kt.beam_search` on tables: int [B, K, T] and float64 [B, K]."""
    if not isinstance(constraints, kt.Constraints):
        constraints = kt.Constraints(np.asarray(constraints))
    tokens, scores = _search_of(max_length, search_config)(
        ops.convert_to_tensor(tables, "float32"), as_tensors(constraints)
    )
    assert keras.backend.standardize_dtype(tokens.dtype) == "int32"
    assert keras.backend.standardize_dtype(scores.dtype) == "float32"
    return helpers.to_numpy(tokens).astype(int), helpers.to_numpy(scores)


def as_tensors(constraints):
    """Constraints of tensors instead of arrays."""
    return tree.map_structure(
        lambda each: ops.convert_to_tensor(
            each, "bool" if np.asarray(each).dtype == bool else "int32"
        ),
        constraints,
    )


def assert_same(found, expected):
    """Two searches have the same tokens and nearly the same scores."""
    (tokens, scores), (wanted, wanted_scores) = (
        map(helpers.to_numpy, result[:2]) for result in (found, expected)
    )
    np.testing.assert_array_equal(tokens, wanted)
    np.testing.assert_allclose(scores, wanted_scores, rtol=1e-5, atol=1e-4)


def log_softmax(logits) -> np.ndarray:
    logits = np.asarray(logits, "float64")
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def reader(table):
    """Prefix -> log-probabilities, of one sentence's table."""
    log_probabilities = log_softmax(table)
    return lambda prefix: log_probabilities[number_of(prefix)]


def restrict(log_probs, grammar, row):
    """Log-probabilities after a prefix, -inf for what is not allowed."""

    def read(prefix):
        at = 0
        for word in prefix:
            at = grammar["next"][row, at, word]
        allowed = grammar["allowed"][row, at]
        return np.where(allowed, log_probs(prefix), -np.inf)

    return read


def penalize(log_probs, ngram_size, penalty):
    """Log-probabilities with the penalties of repetition; no padding."""

    def read(prefix):
        row = log_probs(prefix).copy()
        row[0] = -np.inf
        for word in {*prefix}:
            row[word] *= penalty
        for word in range(VOCABULARY):
            new = (*prefix, word)
            ngrams = [
                new[i : i + ngram_size]
                for i in range(len(new) - ngram_size + 1)
            ]
            if ngram_size and len({*ngrams}) < len(ngrams):
                row[word] = -np.inf
        return row

    return read


def all_hypotheses(
    log_probs, limit: int, alpha, kind, least: int = 1
) -> list[Hypothesis]:
    """Every one of `least` to `limit` tokens with its score, best first."""
    found = []

    def extend(prefix, log_prob):
        length = len(prefix) + 1
        ended = log_prob + log_probs(prefix)[END]
        score = ended / length_penalty(length, alpha, kind)
        if length >= least:
            found.append(((*prefix, END), score))
        if length < limit:
            for word in range(VOCABULARY):
                if word != END:
                    more = log_prob + log_probs(prefix)[word]
                    extend((*prefix, word), more)

    extend((), 0.0)
    return sorted(found, key=lambda hypothesis: -hypothesis[1])


def plain_beam_search(
    log_probs,
    limit: int,
    beams: int,
    alpha: float,
    kind: str,
    least: int = 1,
    forced: tuple[int, ...] = (),
    stop: str = "max_length",
) -> list[Hypothesis]:
    """The documented rule in plain Python."""
    live, finished = [((), 0.0)], []
    for length in range(1, limit + 1):
        penalty = length_penalty(length, alpha, kind)
        continuations = [
            ((*prefix, word), log_prob + more)
            for prefix, log_prob in live
            for word, more in enumerate(log_probs(prefix))
            if _allowed(word, length, limit, least, forced)
        ]
        continuations.sort(key=lambda found: -found[1])
        best = continuations[: 2 * beams]
        may_end = best if stop == "max_length" else best[:beams]
        # At the limit every live hypothesis ends, and nothing else happens.
        finished += [
            (tokens, log_prob / penalty)
            for tokens, log_prob in (
                continuations if length == limit else may_end
            )
            if tokens[-1] == END
        ]
        finished = sorted(finished, key=lambda found: -found[1])[:beams]
        live = [found for found in best if found[0][-1] != END][:beams]
        if stop == "max_length" or len(finished) < beams:
            continue
        if (
            stop == "k_finished"
            or not live
            or live[0][1] / penalty <= finished[-1][1]
        ):
            break
    return finished


def _allowed(word, length, limit, least, forced):
    if length == limit:
        return word == END
    if length <= len(forced):
        return word == forced[length - 1]
    return word != END or length >= least


def assert_finds_all(tables, constraints, search_config, expected_of):
    """Compares each sentence with `expected_of(row, its log_probs)`."""
    tokens, scores = search(tables, constraints, CAPACITY, search_config)
    for row, table in enumerate(tables):
        log_probs = reader(table)
        if search_config.grammar:
            log_probs = restrict(log_probs, constraints.grammar, row)
        repetition = (
            search_config.no_repeat_ngram_size,
            search_config.repetition_penalty,
        )
        if repetition != (0, 1.0):
            log_probs = penalize(log_probs, *repetition)
        expected = expected_of(row, log_probs)[: search_config.beam_size]
        assert_finds(
            *(tokens[row], scores[row], expected, log_probs),
            *(search_config.alpha, search_config.length_penalty),
        )


def assert_finds(tokens, scores, expected, log_probs, alpha=0.6, kind="gnmt"):
    """One sentence's result is `expected`, best first.

    Scores must agree rank by rank, and each hypothesis must have its score:
    hypotheses of equal scores may have either order.
    """
    wanted = np.array([score for _, score in expected if score > -np.inf])
    count = len(wanted)
    np.testing.assert_allclose(scores[:count], wanted, 2e-5, 2e-6)
    found = [as_tuple(row) for row in tokens[:count]]
    assert len(set(found)) == count
    again = [score_of(tokens, log_probs, alpha, kind) for tokens in found]
    np.testing.assert_allclose(scores[:count], again, 2e-5, 2e-6)
    np.testing.assert_array_equal(scores[count:], IMPOSSIBLE)
    assert not tokens[count:].any()


def as_tuple(row) -> tuple[int, ...]:
    """Tokens up to the end id, after which only padding may stand."""
    length = list(row).index(END) + 1
    assert not row[length:].any()
    return tuple(int(word) for word in row[:length])


def score_of(tokens, log_probs, alpha, kind):
    total = sum(
        log_probs(tokens[:place])[word] for place, word in enumerate(tokens)
    )
    return total / length_penalty(len(tokens), alpha, kind)
