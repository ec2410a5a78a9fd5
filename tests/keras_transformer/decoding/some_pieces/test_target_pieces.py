"""Searches that say some pieces alone, beside searches that could say all."""

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from tests.keras_transformer import helpers

UNKNOWN, V, ROOM = 1, 80, 6
KEPT = [70, 41, 5, 33, 8, 79, 20]
SOURCE = np.array([[4, 8, 5, 9, 3], [7, 3, 0, 0, 0], [10, 6, 3, 0, 0]], "int32")


def model_of(seed=4, scale=2.0, **changes):
    model = kt.Transformer(
        helpers.config(
            vocabulary_size=V,
            num_layers=1,
            beam_size=2,
            max_output_extra=4,
            **changes,
        )
    )
    helpers.randomise(model, seed=seed, scale=scale)
    return model


def masked(model, ids):
    """The model with weights that make all other pieces impossible.

    Feature 0 of the decoder's output is made a constant 1.
    """
    last = model.decoder.layers[-1].feed_forward_residual.layer_norm
    for weight, constant in ((last.gamma, 0.0), (last.beta, 1.0)):
        values = helpers.to_numpy(weight)
        values[0] = constant
        weight.assign(values)
    table = helpers.to_numpy(model.output_embedding.embeddings)
    others = np.append(np.setdiff1d(np.arange(V), ids), UNKNOWN)
    table[others, 0] -= 1e4
    model.output_embedding.embeddings.assign(table)
    return model


def translate(model, pieces=None):
    searched = model if pieces is None else pieces.only(model)

    def search(source):
        found = kt.translate_ids(searched, source, ROOM)
        tokens = found.tokens
        return tokens if pieces is None else pieces.to_ids(tokens), found.scores

    tokens, scores = helpers.jitted(search)(ops.convert_to_tensor(SOURCE))
    return helpers.to_numpy(tokens).astype(int), helpers.to_numpy(scores)


def test_the_special_ids_are_there_and_32_or_64_pieces():
    pieces = kt.TargetPieces(KEPT, V)
    assert pieces.ids[:4].tolist() == [0, 1, 2, 3]
    assert set(KEPT) < set(pieces.ids)
    assert len(pieces.ids) == 32
    assert (np.diff(pieces.ids) > 0).all()
    assert len(kt.TargetPieces(range(40), V).ids) == 64
    assert kt.TargetPieces(pieces.ids, V).ids.tolist() == pieces.ids.tolist()
    # There are no more to fill up with.
    assert kt.TargetPieces(range(66), V).ids.tolist() == [*range(V)]


@pytest.mark.parametrize("number", [-1, V])
def test_an_id_of_no_piece_is_refused(number):
    with pytest.raises(ValueError, match=f"0 to 79, not {number}"):
        kt.TargetPieces([5, number], V)


def test_another_vocabularys_model_is_refused():
    with pytest.raises(ValueError, match="vocabulary_size=11"):
        kt.TargetPieces(KEPT, V).only(kt.Transformer(helpers.config()))


def test_a_search_finds_what_one_among_all_finds_where_others_cannot_be():
    pieces = kt.TargetPieces(KEPT, V)
    model = masked(model_of(share_embeddings="none"), pieces.ids)
    tokens, scores = translate(model, pieces)
    expected, expected_scores = translate(model)
    np.testing.assert_array_equal(tokens, expected)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-5)
    # And other pieces than those with the lowest ids are among them.
    assert np.isin(KEPT, tokens).any()


def others_share(logits, ids):
    """The log of the estimated sum of the others' exponentials, [..., 1]."""
    others = np.append(np.setdiff1d(np.arange(V), ids), UNKNOWN)
    of_others, n = logits[..., others], len(others)
    variance = of_others.var(axis=-1, keepdims=True)
    spread = np.where(
        variance < 2 * np.log(n),
        np.log(n) + variance / 2,
        np.sqrt(2 * np.log(n) * variance),
    )
    return of_others.mean(axis=-1, keepdims=True) + spread


@pytest.mark.parametrize(
    ("changes", "scale"),
    [
        ({"output_bias": True}, 1.0),
        ({"output_bias": True, "share_embeddings": "none"}, 4.0),
        ({}, 2.0),
    ],
    ids=["shared", "apart", "without bias"],
)
def test_scores_count_what_others_are_thought_to_have(changes, scale):
    pieces = kt.TargetPieces(KEPT, V)
    model = model_of(scale=scale, **changes)
    tokens, scores = translate(model, pieces)
    assert np.isin(tokens, pieces.ids).all()
    best = tokens[:, 0]
    begin = np.full_like(best[:, :1], 2)
    inputs = {
        "source": SOURCE,
        "target": np.concatenate([begin, best[:, :-1]], axis=1),
    }
    logits = helpers.logits(model, inputs)
    sayable = np.setdiff1d(pieces.ids, UNKNOWN)
    counted = np.concatenate(
        [logits[..., sayable], others_share(logits, pieces.ids)], axis=-1
    )
    log_probs = logits - np.log(np.exp(counted).sum(-1, keepdims=True))
    of_tokens = np.take_along_axis(log_probs, best[..., None], -1)[..., 0]
    lengths = (best != 0).sum(1)
    expected = np.where(best != 0, of_tokens, 0).sum(1)
    expected /= ((5 + lengths) / 6) ** 0.6
    np.testing.assert_allclose(scores[:, 0], expected, rtol=1e-4)


def test_scores_are_nearly_the_whole_models():
    """Though a quarter of the softmax is the others'."""
    pieces = kt.TargetPieces(range(700), 1000)
    model = kt.Transformer(
        helpers.config(vocabulary_size=1000, num_layers=1, max_output_extra=4)
    )
    helpers.randomise(model, seed=1)
    tokens, scores = translate(model, pieces)
    best = ops.convert_to_tensor(tokens[:, 0], "int32")
    whole = helpers.to_numpy(kt.score_ids(model, SOURCE, best))
    lengths = (tokens[:, 0] != 0).sum(1)
    found = scores[:, 0] * ((5 + lengths) / 6) ** 0.6
    # Among the pieces alone each token would have 0.3 more.
    np.testing.assert_allclose(found, whole, atol=0.05)


@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_all_pieces_are_the_whole_model(scale):
    model = model_of(scale=scale, output_bias=True)
    tokens, scores = translate(model, kt.TargetPieces(range(V), V))
    expected, expected_scores = translate(model)
    np.testing.assert_array_equal(tokens, expected)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-5)


def test_models_decode_together():
    pieces = kt.TargetPieces(KEPT, V)
    models = [
        masked(model_of(seed=seed, share_embeddings="none"), pieces.ids)
        for seed in (1, 2)
    ]
    tokens, scores = translate(kt.Ensemble(models, "probabilities"), pieces)
    expected, expected_scores = translate(kt.Ensemble(models, "probabilities"))
    np.testing.assert_array_equal(tokens, expected)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-5)


def test_alignments_are_those_of_the_whole_model():
    pieces = kt.TargetPieces(KEPT, V)
    model = model_of()

    def search(source):
        found = kt.translate_ids_and_attend(pieces.only(model), source, ROOM)
        best = found.tokens[:, :1]
        alignments = kt.gather_alignments(found.state, best)
        return pieces.to_ids(best)[:, 0], alignments[:, 0]

    if helpers.JITTED:
        pytest.skip("its shapes are open")
    tokens, alignments = search(ops.convert_to_tensor(SOURCE))
    expected = helpers.to_numpy(kt.force_align(model, SOURCE, tokens))
    real = helpers.to_numpy(tokens) != 0
    np.testing.assert_allclose(
        helpers.to_numpy(alignments)[real], expected[real], atol=1e-5
    )
