"""The best continuations among many tokens, against sorting them all."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding.candidates import best_candidates
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding import beam_tables as bt


@pytest.mark.parametrize(
    "vocabulary, spread, head_start, beams, end_rank",
    # Divisible by 32, by 37 only, prime, fewer than asked for; suppressed
    # tokens are likelier than all others, or not.
    [
        (640, 3.0, 0.0, 4, 4),
        (640, 3.0, 10.0, 4, 8),
        (999, 3.0, 10.0, 4, 8),
        (997, 20.0, 0.0, 1, 2),
        (6, 1.0, 10.0, 4, 8),
        (640, 0.0, 0.0, 4, 4),
    ],
)
def test_they_are_the_best(vocabulary, spread, head_start, beams, end_rank):
    generator = np.random.default_rng(vocabulary)
    batch, suppressed = 5, (0, 1, 2)
    logits = spread * generator.normal(size=(batch, beams, vocabulary))
    logits[..., list(suppressed)] += head_start
    # Exact ties are cut anywhere: none here, but for the flat case.
    logits = logits.astype("float32")
    live = np.sort(-generator.random((batch, beams)).astype("float32"))[:, ::-1]
    found = best_candidates(
        ops.convert_to_tensor(logits),
        ops.convert_to_tensor(live.copy()),
        end_rank,
        suppressed,
    )
    log_probs = live[..., None] + bt.log_softmax(logits)
    log_probs[..., list(suppressed)] = -np.inf
    ends = log_probs[..., bt.END].copy()
    best = np.sort(log_probs.reshape(batch, -1))[:, ::-1]
    log_probs[..., bt.END] = -np.inf
    continuing = log_probs.reshape(batch, -1)
    expected = np.sort(continuing)[:, ::-1][:, :beams]
    actual, places, tokens, actual_ends, may_end = map(
        helpers.to_numpy,
        (
            *(found.log_probs, found.parents, found.tokens),
            *(found.end_log_probs, found.may_end),
        ),
    )
    # Of 6 tokens 2 may follow each beam.
    real = np.isfinite(expected)
    places = (places * vocabulary + tokens).astype(int)
    chosen = np.take_along_axis(continuing, places, axis=1)
    for each in (actual, chosen):
        np.testing.assert_allclose(each[real], expected[real], 1e-5, 1e-5)
    np.testing.assert_allclose(actual_ends, ends, 1e-5, 1e-5)
    if spread:
        least = best[:, end_rank - 1 : end_rank] - 1e-6
        np.testing.assert_array_equal(may_end, ends >= least)
