"""Searches over subsets of the vocabulary, against searches over all of it."""

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding import beam_tables as bt

UNKNOWN, CAPACITY = 1, 6
# Vocabularies of the fixed subsets, and of the shortlists of 32 tokens.
V, V_LISTS, SIZE = 80, 300, 32
ALLOWED = [70, 41, 5, 33, 8, 79, 20]
SOURCE = np.array([[4, 8, 4, 9, 3], [7, 3, 0, 0, 0], [10, 6, 3, 0, 0]], "int32")


def model_of(size=V, seed=4, scale=2.0, **changes):
    model = kt.Transformer(
        helpers.config(
            vocabulary_size=size,
            num_layers=1,
            beam_size=2,
            max_extra_tokens=4,
            **changes,
        )
    )
    helpers.randomise(model, seed=seed, scale=scale)
    return model


def suppress(model, excluded):
    """Makes tokens impossible through the model's weights."""
    helpers.fix_feature_0(model, 1.0)
    table = helpers.to_numpy(model.output_embedding.embeddings)
    table[excluded, 0] -= 1e4
    model.output_embedding.embeddings.assign(table)
    return model


def set_bias(model, ids, bias):
    biases = np.array(helpers.to_numpy(model.output_embedding.bias))
    biases[ids] = bias
    model.output_embedding.bias.assign(biases)


def excluded_from(subset):
    """All other tokens, and the unknown one, which stands for them."""
    outside = np.setdiff1d(np.arange(subset.vocabulary_size), subset.ids)
    return np.append(outside, UNKNOWN)


def translate(model, subset=None, source=SOURCE):
    """Vocabulary ids [B, K, T] and scores."""
    searched = subset.restrict(model) if subset else model

    def search(source):
        found = kt.translate_ids(searched, source, CAPACITY)
        if not subset:
            return found[:2]
        return subset.to_vocabulary_ids(found.tokens, source), found.scores

    tokens, scores = helpers.jitted(search)(ops.convert_to_tensor(source))
    return helpers.to_numpy(tokens).astype(int), helpers.to_numpy(scores)


def estimate_excluded(logits):
    """The log of the estimated sum of exponentials, [..., 1]."""
    variance, n = logits.var(axis=-1, keepdims=True), logits.shape[-1]
    spread = np.where(
        variance < 2 * np.log(n),
        np.log(n) + variance / 2,
        np.sqrt(2 * np.log(n) * variance),
    )
    return logits.mean(axis=-1, keepdims=True) + spread


def assert_scores(model, tokens, scores, counted):
    """Scores of the best are normalized over the `counted(row, logits)`."""
    best = tokens[:, 0]
    begin = np.full_like(best[:, :1], 2)
    target = np.concatenate([begin, best[:, :-1]], axis=1)
    logits = helpers.logits(model, {"source": SOURCE, "target": target})
    for row, each in enumerate(logits):
        total = np.exp(counted(row, each)).sum(axis=-1, keepdims=True)
        length = (best[row] != 0).sum()
        log_probs = (each - np.log(total))[range(length), best[row, :length]]
        expected = log_probs.sum() / ((5 + length) / 6) ** 0.6
        np.testing.assert_allclose(scores[row, 0], expected, rtol=1e-4)


def test_finds_what_a_full_search_finds_where_no_other_token_is_possible():
    subset = kt.OutputVocabulary.fixed(ALLOWED, V)
    assert subset.ids[:4].tolist() == [0, 1, 2, 3]
    assert set(ALLOWED) < set(subset.ids) and len(subset.ids) == 32
    assert (np.diff(subset.ids) > 0).all()
    models = [
        suppress(
            model_of(seed=seed, share_embeddings="none"), excluded_from(subset)
        )
        for seed in (1, 4)
    ]
    model = kt.Ensemble(models, "probabilities")
    tokens, scores = translate(model, subset)
    bt.assert_same((tokens, scores), translate(model))
    # And other tokens than those with the lowest ids are among them.
    assert np.isin(ALLOWED, tokens).any()


# Pretrained models exclude ids from the softmax by a bias of -1e9.
@pytest.mark.parametrize(
    ("bias", "scale", "no_share"),
    [(True, 4.0, []), (True, 1.0, [50, 78]), (False, 1.0, [])],
)
def test_scores_count_the_estimate_of_excluded_tokens(bias, scale, no_share):
    subset = kt.OutputVocabulary.fixed(ALLOWED, V)
    model = model_of(scale=scale, output_bias=bias)
    if no_share:
        set_bias(model, no_share, -1e9)
    tokens, scores = translate(model, subset)
    assert np.isin(tokens, subset.ids).all()
    allowed = np.setdiff1d(subset.ids, UNKNOWN)

    def counted(row, logits):
        outside = np.setdiff1d(excluded_from(subset), no_share)
        excluded = estimate_excluded(logits[:, outside])
        return np.concatenate([logits[:, allowed], excluded], axis=-1)

    assert_scores(model, tokens, scores, counted)


def test_all_tokens_are_the_full_vocabulary():
    model = model_of(scale=5.0, output_bias=True)
    found = translate(model, kt.OutputVocabulary.fixed(range(V), V))
    bt.assert_same(found, translate(model))


def tables(unseen=0):
    """Arguments of a shortlist; no translation has the last tokens."""
    generator = np.random.default_rng(0)
    seen = V_LISTS - unseen
    targets = generator.integers(4, V_LISTS, (V_LISTS, 20))
    probabilities = generator.dirichlet(np.ones(20), V_LISTS)
    frequencies = 0.01 * generator.random(V_LISTS)
    frequencies[seen:] = 0
    targets = np.minimum(targets, seen - 1)
    return targets, probabilities.astype("float32"), frequencies


def shortlist(unseen=0, size=SIZE):
    return kt.OutputVocabulary.shortlist(*tables(unseen), size)


def lists(targets, probabilities, frequencies):
    """Each sentence's ids, counted one by one."""
    found = []
    for ids in SOURCE:
        expected = frequencies.astype("float64")
        for number in ids[ids != 0]:
            for target, share in zip(targets[number], probabilities[number]):
                expected[target] += share
        expected[:4] = np.inf
        found.append(np.sort(np.argsort(-expected)[:SIZE]))
    return np.stack(found)


def test_a_shortlist_has_the_tokens_with_the_highest_expected_counts():
    found = helpers.to_numpy(shortlist().sentence_ids(SOURCE))
    np.testing.assert_array_equal(found, lists(*tables()))


@pytest.mark.parametrize(
    ("bias", "unseen", "no_share"),
    [(False, 0, []), (True, 90, []), (True, 90, [UNKNOWN, 299])],
)
def test_a_shortlist_estimates_rare_and_unseen_tokens(bias, unseen, no_share):
    model = model_of(V_LISTS, output_bias=bias)
    if no_share:
        set_bias(model, no_share, -1e9)
    tokens, scores = translate(model, shortlist(unseen))
    ids, seen = lists(*tables(unseen)), V_LISTS - unseen
    rare = np.argsort(-tables(unseen)[2][4:seen])[SIZE - 4 :] + 4
    kinds = [np.append(rare, UNKNOWN), np.arange(seen, V_LISTS)]
    kinds = [np.setdiff1d(each, no_share) for each in kinds]

    def counted(row, logits):
        assert np.isin(tokens[row], ids[row]).all()
        excluded = [
            estimate_excluded(logits[:, each]) for each in kinds if len(each)
        ]
        allowed = logits[:, np.setdiff1d(ids[row], UNKNOWN)]
        return np.concatenate([allowed, *excluded], axis=-1)

    assert_scores(model, tokens, scores, counted)


def test_an_answer_does_not_depend_on_its_batch():
    model = model_of(V_LISTS)
    tokens, scores = translate(model, shortlist())
    alone = translate(model, shortlist(), SOURCE[1:2, :2])
    bt.assert_same(alone, (tokens[1:2], scores[1:2]))


def test_refuses():
    targets, probabilities, frequencies = tables()
    for arguments, message in (
        ((targets, probabilities[:, 1:], frequencies, 32), "shape"),
        ((targets, probabilities, frequencies[:200], 32), "0 to 199"),
        ((targets - 5, probabilities, frequencies, 32), "0 to 299"),
        ((targets, probabilities, frequencies, 4), "size"),
    ):
        with pytest.raises(ValueError, match=message):
            kt.OutputVocabulary.shortlist(*arguments)
    for outside in (-1, V):
        with pytest.raises(ValueError, match=f"got {outside}"):
            kt.OutputVocabulary.fixed([5, outside], V)
    other = kt.Transformer(helpers.config())
    for subset, model in (
        (kt.OutputVocabulary.fixed(ALLOWED, V), other),
        (shortlist(), other),
        (shortlist(size=V_LISTS), model_of(V_LISTS)),
    ):
        with pytest.raises(ValueError, match="Expected"):
            subset.restrict(model)
