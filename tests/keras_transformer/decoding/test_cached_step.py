"""Decoding step by step through the cache against the full pass."""

import keras
import numpy as np
import pytest

from tests.keras_transformer import helpers

STEPS = 4
# All ids but pad and begin, which a search may rule out in its own way.
WORDS = [1, *range(3, 11)]
SOURCE = helpers.padded_inputs()["source"]


def full_pass(model, prefixes):
    """The logits after each hypothesis' last token, in one batch: [B, K, V]."""
    batch, beams = prefixes[0].shape[:2]
    # Padded to one shape, which causality makes harmless.
    targets = [
        np.pad(each, ((0, 0), (0, 0), (0, STEPS - each.shape[2])))
        for each in prefixes
    ]
    inputs = {
        "source": np.tile(np.repeat(SOURCE, beams, axis=0), (STEPS, 1)),
        "target": np.concatenate(targets).reshape(-1, STEPS),
    }
    logits = helpers.logits(model, inputs)
    logits = logits.reshape(STEPS, batch, beams, STEPS, -1)
    return [step[:, :, index] for index, step in enumerate(logits)]


@pytest.mark.parametrize("name", helpers.VARIANTS)
def test_equals_the_full_pass(name):
    """Of 3 beams with random parents: some die, others have children."""
    model, generator = helpers.variant(name), np.random.default_rng(6)
    shape = batch, beams = len(SOURCE), 3
    decoder = model.beam_decoder(beams)
    state, step = decoder.start(SOURCE, STEPS), helpers.jitted(decoder.step)
    # What the cache has to come to, by plain copying.
    prefixes, prefix, found = [], np.zeros((*shape, 0), "int32"), []
    tokens, parents = np.full(shape, 2), np.zeros(shape, int)
    for index in range(STEPS):
        prefix = np.take_along_axis(prefix, parents[:, :, None], axis=1)
        prefix = np.concatenate([prefix, tokens[..., None]], axis=2)
        arrays = (tokens, parents, index)
        logits, state = step(
            *[keras.ops.convert_to_tensor(each, "int32") for each in arrays],
            state,
        )
        prefixes.append(prefix)
        found.append(helpers.to_numpy(logits)[..., WORDS])
        tokens = generator.integers(4, 11, shape)
        parents = generator.integers(0, beams, shape)
    for actual, wanted in zip(found, full_pass(model, prefixes), strict=True):
        assert helpers.relative_error(actual, wanted[..., WORDS]) <= 1e-5
