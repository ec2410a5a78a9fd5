"""Decoding step by step through the cache against the full pass."""

import keras
import numpy as np
import pytest

from tests.keras_transformer import helpers

STEPS = 4
# All ids but pad and begin, which a search may rule out in its own way.
WORDS = [1, *range(3, 11)]
SOURCE = helpers.padded_inputs()["source"]


class Beams:
    """K hypotheses a sentence, driven at will through `BeamDecoder`.

    `prefixes` is int [B, K, tokens so far], the decoder's input, kept by
    plain copying; the cache has to come to the same.
    """

    def __init__(self, model, beams):
        batch = len(SOURCE)
        decoder = model.beam_decoder(beams)
        self.state = decoder.start(SOURCE, STEPS)
        self.step = helpers.jitted(decoder.step)
        self.prefixes = np.zeros((batch, beams, 0), "int32")

    def advance(self, tokens, parents):
        index = self.prefixes.shape[2]
        inherited = np.take_along_axis(
            self.prefixes, parents[:, :, None], axis=1
        )
        self.prefixes = np.concatenate([inherited, tokens[..., None]], axis=2)
        logits, self.state = self.step(
            keras.ops.convert_to_tensor(tokens, "int32"),
            keras.ops.convert_to_tensor(parents, "int32"),
            keras.ops.convert_to_tensor(index, "int32"),
            self.state,
        )
        return helpers.to_numpy(logits)


def full_pass(model, prefixes):
    """The logits after each hypothesis' last token: [B, K, V]."""
    batch, beams, length = prefixes.shape
    flat = {
        "source": np.repeat(SOURCE, beams, axis=0),
        # Padded to one shape, which causality makes harmless.
        "target": np.pad(
            prefixes.reshape(-1, length), ((0, 0), (0, STEPS - length))
        ),
    }
    logits = helpers.logits(model, flat)[:, length - 1]
    return logits.reshape(batch, beams, -1)


def worst_error(model, beams, parents_at):
    """Largest relative error over `STEPS` steps with random tokens."""
    generator = np.random.default_rng(6)
    decoding, worst = Beams(model, beams), 0.0
    shape = (len(SOURCE), beams)
    tokens = np.full(shape, 2)
    parents = np.zeros(shape, int)
    for _ in range(STEPS):
        logits = decoding.advance(tokens, parents)
        expected = full_pass(model, decoding.prefixes)
        error = helpers.relative_error(logits[..., WORDS], expected[..., WORDS])
        worst = max(worst, error)
        tokens = generator.integers(4, 11, shape)
        parents = parents_at(generator, shape)
    return worst


def own(_, shape):
    return np.broadcast_to(np.arange(shape[1]), shape)


def permuted(generator, shape):
    return generator.permuted(own(generator, shape), axis=1)


def drawn(generator, shape):
    """Some beams die and others have several children."""
    return generator.integers(0, shape[1], shape)


@pytest.mark.parametrize("name", helpers.VARIANTS)
def test_one_beam_equals_the_full_pass(name):
    assert worst_error(helpers.variant(name), 1, own) <= 1e-5


@pytest.mark.parametrize(
    "name, parents",
    [
        ("paper", permuted),
        ("paper", drawn),
        ("pre-norm", drawn),
        ("learned", drawn),
        ("one-head", drawn),
    ],
)
def test_beams_follow_their_parents(name, parents):
    assert worst_error(helpers.variant(name), 3, parents) <= 1e-5


def test_beams_under_a_window():
    assert worst_error(helpers.variant("window"), 3, drawn) <= 1e-5


def test_step_returns_the_cross_attention_of_the_full_pass():
    model = helpers.variant("paper")
    prefix = np.array([[2, 5], [2, 9], [2, 7]], "int32")
    inputs = {"source": SOURCE, "target": prefix}
    expected = model.attention(inputs)["cross"]
    decoder = model.beam_decoder(1)
    state = decoder.start(SOURCE, 4)
    parents = np.zeros((3, 1), "int32")
    for index in range(2):
        tokens = prefix[:, index : index + 1]
        _, state, weights = decoder.attending_step(
            tokens, parents, index, state
        )
        for layer, wanted in zip(weights, expected):
            wanted = helpers.to_numpy(wanted)[:, :, index : index + 1]
            assert helpers.relative_error(layer, wanted) <= 1e-5
