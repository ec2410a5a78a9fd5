"""Terms in beam search on random tables, against all hypotheses."""

import numpy as np
import pytest
from hypothesis import given, settings

import keras_transformer as kt
from tests.keras_transformer.decoding import beam_tables as bt

SENTENCES, CAPACITY = 16, 5
# Tokens 2 and 4 begin words, 1 continues one; after 2 a word may follow
# without a space, and only words of 1 and 2 may continue.
EDGES = kt.WordEdges([0, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 1, 0, 0])
COPIED = np.random.default_rng(1).random((SENTENCES, 2)) < 0.5
NO_WORDS = kt.WordEdges(*np.zeros((3, 5)))


def make_terms(seed, edges):
    """Two terms of two alternatives of 1 or 2 tokens; some are missing."""
    generator = np.random.default_rng(seed)
    terms = generator.choice([1, 2, 4], (SENTENCES, 2, 2, 2))
    terms[generator.random((SENTENCES, 2, 2)) < 0.5, 1] = 0
    # The first alternative of each begins a word.
    begins = np.flatnonzero(~edges.joins_previous)
    begins = begins[(begins != 0) & (begins != bt.END)]
    terms[:, :, 0, 0] = generator.choice(begins, (SENTENCES, 2))
    terms[generator.random((SENTENCES, 2)) < 0.3, 1] = 0
    terms[generator.random((SENTENCES, 2)) < 0.2] = 0
    return terms


def has_alternative(tokens, alternative, edges):
    """Whether tokens, which end with the end id, have it as whole words."""
    size = len(alternative)
    for start in range(len(tokens) - size):
        end = start + size
        begins = not edges.joins_previous[alternative[0]]
        begins |= start > 0 and edges.precedes_word[tokens[start - 1]]
        ends = not edges.joins_next[alternative[-1]]
        ends |= not edges.joins_previous[tokens[end]]
        if tokens[start:end] == alternative and begins and ends:
            return True
    return False


def has_terms(tokens, terms, edges):
    for term in terms:
        alternatives = [tuple(each[each > 0]) for each in term if each.any()]
        found = [has_alternative(tokens, each, edges) for each in alternatives]
        if alternatives and not any(found):
            return False
    return True


def search(seed, terms, edges, maxima, prefix=(), **config):
    tables = bt.random_tables(seed, SENTENCES, CAPACITY)
    constraints = kt.Constraints(
        maxima,
        prefix=prefix,
        terms=terms,
        copied_terms=COPIED[:, : terms.shape[1]],
    )
    config = bt.config(word_edges=edges, **config)
    return tables, *bt.search(tables, constraints, CAPACITY, config)


@pytest.mark.parametrize("edges", [EDGES, NO_WORDS])
@settings(max_examples=2)
@given(seed=bt.SEEDS)
def test_a_wide_beam_finds_the_best_with_all_terms(edges, seed):
    """256 beams hold all prefixes of 4 tokens, which are 1, 2, 4 or 0."""
    terms = make_terms(seed, edges)
    maxima = np.full(SENTENCES, CAPACITY)
    tables, tokens, scores = search(
        seed, terms, edges, maxima, beam_size=256, stop_criterion="exact"
    )
    for row, table in enumerate(tables):
        every = bt.all_hypotheses(bt.reader(table), CAPACITY, 0.6, "gnmt")
        (best, score), *_ = (
            each for each in every if has_terms(each[0], terms[row], edges)
        )
        np.testing.assert_allclose(scores[row, 0], score, 1e-4, 1e-4)
        assert bt.as_tuple(tokens[row, 0]) == best


@pytest.mark.parametrize(
    "beams, stop", [(1, "exact"), (2, "k_finished"), (3, "heuristic")]
)
@settings(max_examples=2)
@given(seed=bt.SEEDS)
def test_any_beam_finds_the_terms_at_the_least_length(beams, stop, seed):
    """Also after a prefix, and where terms are all that there is room for."""
    generator = np.random.default_rng(seed)
    terms = make_terms(seed, EDGES)
    prefix = generator.choice([1, 2, 4], (SENTENCES, 1))
    lengths = (terms > 0).sum(axis=3)
    lengths[EDGES.joins_previous[terms[..., 0]]] = 0
    least = np.where(lengths == 0, 9, lengths).min(axis=2) % 9
    least = least.sum(axis=1)
    prefix[least + 2 > CAPACITY] = 0
    maxima = least + (prefix[:, 0] > 0) + 1
    _, tokens, scores = search(
        *(seed, terms, EDGES, maxima, prefix),
        beam_size=beams,
        stop_criterion=stop,
    )
    for row in range(SENTENCES):
        for rank in range(beams):
            if scores[row, rank] > bt.IMPOSSIBLE:
                found = bt.as_tuple(tokens[row, rank])
                assert has_terms(found, terms[row], EDGES)
                assert len(found) <= maxima[row]
                assert not prefix[row, 0] or found[0] == prefix[row, 0]
    assert (scores[:, 0] > bt.IMPOSSIBLE).all()


@pytest.mark.parametrize("stop", ["exact", "k_finished", "heuristic"])
def test_sentences_without_terms_are_as_in_a_search_without(stop):
    terms = np.zeros((SENTENCES, 1, 1, 1), int)
    terms[::2] = 4
    maxima = np.full(SENTENCES, CAPACITY)
    config = {"beam_size": 3, "n_best": 1, "stop_criterion": stop}
    for seed in range(8):
        tables, tokens, scores = search(seed, terms, EDGES, maxima, **config)
        plain = bt.search(tables, maxima, CAPACITY, bt.config(**config))
        bt.assert_same(
            (tokens[1::2, :1], scores[1::2, :1]), [p[1::2, :1] for p in plain]
        )
        assert (scores[::2, 0] < plain[1][::2, 0]).any()


def test_terms_that_do_not_fit_give_no_hypothesis():
    terms = np.full((SENTENCES, 2, 1, 2), 4)
    terms[:, 1] = 2
    maxima = np.full(SENTENCES, CAPACITY)
    maxima[::2] = 3
    _, _, scores = search(5, terms, NO_WORDS, maxima, beam_size=2)
    found = scores[:, 0] > bt.IMPOSSIBLE
    np.testing.assert_array_equal(found, np.arange(SENTENCES) % 2 == 1)


def test_terms_and_word_edges_go_together_and_without_a_grammar():
    terms = np.ones((1, 1, 1, 1), int)
    state = {"at": np.zeros(1, "int32")}
    for constraints, config in (
        (kt.Constraints([2]), bt.config(word_edges=EDGES)),
        (kt.Constraints([2], terms=terms), bt.config()),
        (
            kt.Constraints([2], grammar=state, terms=terms),
            bt.config(word_edges=EDGES, grammar=bt.AUTOMATON),
        ),
    ):
        with pytest.raises(ValueError, match="terms"):
            kt.beam_search(None, (), constraints, 2, config)
