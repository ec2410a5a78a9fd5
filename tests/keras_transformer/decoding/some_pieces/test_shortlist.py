"""Searches held to each sentence's list, beside searches of the same pieces."""

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from tests.keras_transformer import helpers

UNKNOWN, V, SIZE, ROOM = 1, 300, 32, 6
SOURCE = np.array([[4, 8, 5, 9, 3], [7, 3, 0, 0, 0], [10, 6, 3, 0, 0]], "int32")


def tables(seed=0, source_size=V, width=20):
    generator = np.random.default_rng(seed)
    targets = generator.integers(4, V, (source_size, width))
    probabilities = generator.dirichlet(np.ones(width), source_size)
    everywhere = 0.01 * generator.random(V)
    return targets, probabilities.astype("float32"), everywhere


def lists(targets, probabilities, everywhere, source, size=SIZE):
    """Each sentence's ids, counted one by one."""
    found = []
    for ids in source:
        expected = everywhere.astype("float64")
        for number in ids[ids != 0]:
            for target, probability in zip(
                targets[number], probabilities[number]
            ):
                expected[target] += probability
        expected[:4] = np.inf
        found.append(np.sort(np.argsort(-expected)[:size]))
    return np.stack(found)


def model_of(seed=4, **changes):
    model = kt.Transformer(
        helpers.config(
            vocabulary_size=V,
            num_layers=1,
            beam_size=2,
            max_output_extra=4,
            **changes,
        )
    )
    helpers.randomise(model, seed=seed, scale=2.0)
    return model


def translate(model, held, source=SOURCE):
    searched = held.only(model)

    def search(source):
        found = kt.translate_ids(searched, source, ROOM)
        return held.to_ids(found.tokens, source), found.scores

    tokens, scores = helpers.jitted(search)(ops.convert_to_tensor(source))
    return helpers.to_numpy(tokens).astype(int), helpers.to_numpy(scores)


def test_a_list_has_the_pieces_that_are_expected_most():
    shortlist = kt.Shortlist(*tables(), SIZE)
    found = helpers.to_numpy(shortlist.ids(SOURCE))
    np.testing.assert_array_equal(found, lists(*tables(), SOURCE))
    assert found[:, :4].tolist() == [[0, 1, 2, 3]] * 3


def test_pieces_of_the_source_count_as_often_as_they_are_there():
    targets = np.array([[5], [5], [5], [5], [6], [7]])
    probabilities = np.array([[0], [0], [0], [0], [0.4], [0.7]])
    shortlist = kt.Shortlist(targets, probabilities, np.zeros(9), 5)
    source = np.array([[4, 4, 5, 3], [4, 5, 3, 0]], "int32")
    found = helpers.to_numpy(shortlist.ids(source))
    assert found[:, 4].tolist() == [6, 7]


@pytest.mark.parametrize(
    "changes",
    [{}, {"output_bias": True, "share_embeddings": "none"}],
    ids=["shared", "apart, with bias"],
)
def test_a_search_is_held_to_each_sentences_own_list(changes):
    """The same pieces, held to for one sentence at a time, are found."""
    model = model_of(**changes)
    tokens, scores = translate(model, kt.Shortlist(*tables(), SIZE))
    for row, ids in enumerate(lists(*tables(), SOURCE)):
        assert np.isin(tokens[row], ids).all()
        pieces = kt.TargetPieces(ids, V)
        assert pieces.ids.tolist() == ids.tolist()
        searched = pieces.only(model)
        found = kt.translate_ids(searched, SOURCE[row : row + 1], ROOM)
        expected = helpers.to_numpy(pieces.to_ids(found.tokens))[0]
        # What the others have is estimated in other ways.
        np.testing.assert_array_equal(tokens[row, 0], expected[0])
        np.testing.assert_allclose(
            scores[row, 0], helpers.to_numpy(found.scores)[0, 0], rtol=0.03
        )


@pytest.mark.parametrize("never", [0, 90])
def test_scores_count_what_others_are_thought_to_have(never):
    """And those that no translation had, the last ones, on their own."""
    had = V - never
    targets, probabilities, everywhere = tables()
    targets, everywhere[had:] = np.minimum(targets, had - 1), 0
    arguments = targets, probabilities, everywhere
    model = model_of(output_bias=True)
    tokens, scores = translate(model, kt.Shortlist(*arguments, SIZE))
    best = tokens[:, 0]
    begin = np.full_like(best[:, :1], 2)
    target = np.concatenate([begin, best[:, :-1]], axis=1)
    logits = helpers.logits(model, {"source": SOURCE, "target": target})
    rare = np.argsort(-everywhere[4:had])[SIZE - 4 :] + 4
    rare = np.append(rare, UNKNOWN)
    others = [others_share(logits[..., rare])]
    if never:
        others.append(others_share(logits[..., had:]))
    others = np.concatenate(others, axis=-1)
    for row, ids in enumerate(lists(*arguments, SOURCE)):
        sayable = np.setdiff1d(ids, UNKNOWN)
        counted = np.concatenate(
            [logits[row][:, sayable], others[row]], axis=-1
        )
        log_probs = logits[row] - np.log(
            np.exp(counted).sum(axis=-1, keepdims=True)
        )
        length = (best[row] != 0).sum()
        total = log_probs[np.arange(length), best[row, :length]].sum()
        np.testing.assert_allclose(
            scores[row, 0], total / ((5 + length) / 6) ** 0.6, rtol=1e-4
        )


def others_share(logits):
    """The log of the estimated sum of exponentials, [..., 1]."""
    n = logits.shape[-1]
    variance = logits.var(axis=-1, keepdims=True)
    assert (variance < 2 * np.log(n)).all()
    return logits.mean(axis=-1, keepdims=True) + np.log(n) + variance / 2


def test_an_answer_does_not_depend_on_its_batch():
    model, shortlist = model_of(), kt.Shortlist(*tables(), SIZE)
    tokens, scores = translate(model, shortlist)
    for row in range(len(SOURCE)):
        alone = SOURCE[row : row + 1]
        alone = alone[:, : (alone != 0).sum()]
        own, own_scores = translate(model, shortlist, alone)
        np.testing.assert_array_equal(tokens[row], own[0])
        np.testing.assert_allclose(scores[row], own_scores[0], rtol=1e-5)


def test_models_decode_together():
    models = [model_of(seed=seed) for seed in (1, 2)]
    shortlist = kt.Shortlist(*tables(), SIZE)
    tokens, _ = translate(kt.Ensemble(models, "probabilities"), shortlist)
    for row, ids in enumerate(lists(*tables(), SOURCE)):
        assert np.isin(tokens[row], ids).all()
    twice, _ = translate(kt.Ensemble([models[0]] * 2), shortlist)
    once, _ = translate(models[0], shortlist)
    np.testing.assert_array_equal(twice, once)


def test_tables_that_do_not_go_together_are_refused():
    targets, probabilities, everywhere = tables()
    for arguments, message in [
        ((targets, probabilities[:, 1:], everywhere, 32), "one shape"),
        ((targets, probabilities, everywhere[:200], 32), "0 to 199"),
        ((targets - 5, probabilities, everywhere, 32), "0 to 299"),
        ((targets, probabilities, everywhere, 4), "above 4, not 4"),
    ]:
        with pytest.raises(ValueError, match=message):
            kt.Shortlist(*arguments)


def test_another_vocabularys_model_is_refused():
    shortlist = kt.Shortlist(*tables(), SIZE)
    with pytest.raises(ValueError, match="model of 11 and 11"):
        shortlist.only(kt.Transformer(helpers.config()))
    with pytest.raises(ValueError, match="leaves none out"):
        kt.Shortlist(*tables(), V).only(model_of())
