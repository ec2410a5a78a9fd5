"""The language as first token, against searches without caches."""

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding.target_language import with_target_language
from tests.export import tiny
from tests.keras_transformer import helpers

LANGUAGES = [7, 8, 9]
SOURCE = np.array(
    [[7, 50, 60, 70, 80, 3], [8, 50, 60, 3, 0, 0], [9, 90, 3, 0, 0, 0]]
)
TARGET = np.array([[20, 21, 3], [30, 3, 0], [3, 0, 0]])
# What the encoder gets.
ENCODED = np.array([[50, 60, 70, 80, 3], [50, 60, 3, 0, 0], [90, 3, 0, 0, 0]])


MAX_LENGTH = 11


class Reference:
    """A model without caches; `logits` has a compiled graph of one shape."""

    def __init__(self, model):
        self._compiled = helpers.compiled_once(
            lambda source, target: model({"source": source, "target": target})
        )

    def log_probs(self, row, hypotheses):
        """After the begin id, the language and each of up to 4 lists of ids."""
        target = np.zeros((4, MAX_LENGTH + 1), np.int32)
        for index, ids in enumerate(hypotheses):
            ids = [kt.BEGIN_ID, LANGUAGES[row], *ids]
            target[index, : len(ids)] = ids
        source = ENCODED[[row] * 4].astype(np.int32)
        logits = helpers.to_numpy(self._compiled(source, target)).astype(float)
        logits -= logits.max(axis=-1, keepdims=True)
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        return [
            log_probs[index, 1 : len(ids) + 2]
            for index, ids in enumerate(hypotheses)
        ]


@pytest.fixture(scope="module")
def model():
    return tiny.model()


@pytest.fixture(scope="module")
def reference(model):
    return Reference(model)


def search_without_cache(reference, beams, alpha, formula, extra=5):
    """Standard beam search in float64; the best hypothesis of each row."""
    limits = (SOURCE != 0).sum(axis=1) - 1 + extra
    results = []
    for row, limit in enumerate(limits):
        live, finished = [(0.0, [])], []
        while live:
            log_probs = reference.log_probs(row, [ids for _, ids in live])
            log_probs = [each[-1] for each in log_probs]
            length = len(live[0][1]) + 1
            counted = length + 1  # With the language.
            penalty = counted**alpha
            if formula == "gnmt":
                penalty = ((5 + counted) / 6) ** alpha
            candidates = sorted(
                (
                    (score + scores[token], [*ids, token])
                    for (score, ids), scores in zip(live, log_probs)
                    for token in range(3 if length > 1 else 4, len(scores))
                ),
                reverse=True,
            )
            # At the limit all hypotheses end, before it the likely ones.
            last = length == limit
            finished += [
                (score / penalty, ids)
                for score, ids in candidates[: None if last else 2 * beams]
                if ids[-1] == 3
            ]
            live = [each for each in candidates if each[1][-1] != 3][:beams]
            live = [] if last else live
        results.append(max(finished))
    return results


@pytest.mark.parametrize("formula", ["gnmt", "power"])
def test_beam_search_equals_search_without_cache(model, reference, formula):
    wrapped = with_target_language(model)
    config = kt.BeamSearchConfig(
        beam_size=4,
        alpha=0.8,
        length_penalty=formula,
        stop_criterion="exact",
        num_given_tokens=wrapped.num_given_tokens,
    )
    limits = (SOURCE != 0).sum(axis=1) - 1 + 5
    # Like the reference, no empty translation.
    constraints = kt.Constraints(limits, np.full_like(limits, 2))
    search = helpers.jitted(
        lambda source: kt.translate_ids(
            wrapped, source, constraints=constraints, config=config
        )
    )
    output = search(SOURCE.astype(np.int32))
    expected = search_without_cache(reference, 4, 0.8, formula)
    for row, (score, ids) in enumerate(expected):
        tokens = helpers.to_numpy(output.tokens)[row, 0]
        assert tokens[tokens != 0].tolist() == ids
        found = helpers.to_numpy(output.scores)[row, 0]
        np.testing.assert_allclose(found, score, atol=1e-4)


def test_the_language_has_one_of_the_learned_positions():
    model = tiny.model(positions="learned", max_positions=MAX_LENGTH - 3)
    wrapped = with_target_language(model)
    config = kt.BeamSearchConfig(beam_size=2, num_given_tokens=1)
    output = kt.translate_ids(wrapped, SOURCE, config=config)
    assert output.tokens.shape[2] == MAX_LENGTH - 4
    scores = kt.score_ids(wrapped, SOURCE, output.tokens[:, 0])
    assert np.isfinite(ops.convert_to_numpy(scores)).all()
    with pytest.raises(ValueError, match="max_positions"):
        kt.translate_ids(wrapped, SOURCE, MAX_LENGTH - 3, config=config)


def test_scores_and_samples_follow_the_language(model, reference):
    wrapped = with_target_language(model)
    expected = [
        sum(
            reference.log_probs(row, [ids])[0][index, token]
            for index, token in enumerate(ids)
        )
        for row, ids in enumerate([[20, 21, 3], [30, 3], [3]])
    ]
    scores = ops.convert_to_numpy(kt.score_ids(wrapped, SOURCE, TARGET))
    np.testing.assert_allclose(scores, expected, rtol=1e-5)

    config = kt.SamplingConfig(samples=2, top_k=1)
    samples = kt.sample_ids(wrapped, SOURCE, 11, np.arange(3), config)
    for row, limit in enumerate((SOURCE != 0).sum(axis=1) + 4):
        ids = []
        while len(ids) < limit and ids[-1:] != [3]:
            best = reference.log_probs(row, [ids])[0][-1, 3:].argmax() + 3
            ids.append(3 if len(ids) + 1 == limit else int(best))
        for sample in ops.convert_to_numpy(samples.tokens)[row]:
            assert sample[sample != 0].tolist() == ids


def test_attention_skips_the_language(model):
    scores = kt.attention_scores(with_target_language(model), SOURCE, TARGET)
    inner = model.attention(
        {
            "source": ENCODED,
            "target": [[2, 7, 20, 21], [2, 8, 30, 0], [2, 9, 0, 0]],
        }
    )
    cross = ops.convert_to_numpy(scores["cross"][0])
    np.testing.assert_allclose(
        cross[0, :, :, 1:],
        ops.convert_to_numpy(inner["cross"][0])[0, :, 1:],
        atol=2e-6,
    )
    assert not cross[..., 0].any()
    decoder = ops.convert_to_numpy(scores["decoder"][0])
    np.testing.assert_allclose(decoder[0].sum(axis=-1), 1.0, atol=1e-5)
    encoder = ops.convert_to_numpy(scores["encoder"][0])
    assert not encoder[:, :, 0].any() and not encoder[..., 0].any()


def test_the_default_search_counts_the_language_in_the_penalty(model):
    wrapped = with_target_language(model)
    output = kt.translate_ids(wrapped, SOURCE, 8)
    best = helpers.to_numpy(output.tokens)[:, 0]
    log_probs = helpers.to_numpy(kt.score_ids(wrapped, SOURCE, best))
    lengths = 1 + np.count_nonzero(best, axis=1)
    penalties = ((5 + lengths) / 6) ** model.config.alpha
    scores = helpers.to_numpy(output.scores)[:, 0]
    np.testing.assert_allclose(scores, log_probs / penalties, rtol=1e-4)


def test_ensembles_and_subsets_of_the_vocabulary(model):
    both = kt.Ensemble([model, model])
    ids = np.arange(20, 200)
    for wrapped in (
        with_target_language(both),
        kt.OutputVocabulary.fixed(ids, 200).restrict(
            with_target_language(model)
        ),
    ):
        result = kt.translate_ids(wrapped, SOURCE, 8)
        plain = kt.translate_ids(with_target_language(model), SOURCE, 8)
        assert result.tokens.shape == plain.tokens.shape
        if isinstance(wrapped, kt.Ensemble):
            np.testing.assert_array_equal(result.tokens, plain.tokens)
