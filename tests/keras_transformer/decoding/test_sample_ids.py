"""Drawing from real Transformers: what is drawn, and what never is."""

import functools

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from tests.keras_transformer import helpers

PAD, UNKNOWN, BEGIN, END = 0, 1, 2, 3
SOURCE = np.array([[4, 8, 5, 9, 3], [7, 3, 0, 0, 0]], "int32")
ROOM = 6
SAMPLES = 300


def _drawn(temperature, never=()):
    """Tokens [B, N, T]; nearly any is as likely where it is hot."""
    rules = kt.SamplingConfig(
        samples=SAMPLES, temperature=temperature, never=never
    )
    draw = helpers.jitted(
        functools.partial(
            kt.sample_ids,
            helpers.variant("paper"),
            max_length=ROOM,
            rules=rules,
        )
    )
    found = draw(
        source=ops.convert_to_tensor(SOURCE),
        seeds=ops.convert_to_tensor([3, 4], "int32"),
        max_lengths=ops.convert_to_tensor([ROOM, ROOM - 2], "int32"),
    )
    return helpers.to_numpy(found.tokens)


@pytest.mark.parametrize("never", [(), (7,), (4, 10)])
def test_pad_unknown_and_begin_are_never_drawn(never):
    tokens = _drawn(1e6, never)
    ended = np.cumsum(tokens == END, axis=2) > 0
    before = tokens[~ended]
    allowed = set(range(4, 11)) - set(never)
    assert set(before.tolist()) == allowed
    # Once it has ended, a sample is the end id and then padding alone.
    assert ended[:, :, -1].all()
    after = ended & np.roll(ended, 1, axis=2)
    after[:, :, 0] = False
    assert (tokens[after] == PAD).all()
    assert ((tokens == END).sum(axis=2) == 1).all()


def test_each_sentence_has_its_own_longest():
    lengths = (_drawn(1e6) != PAD).sum(axis=2)
    assert lengths.max(axis=1).tolist() == [ROOM, ROOM - 2]
    assert lengths.min() == 1
