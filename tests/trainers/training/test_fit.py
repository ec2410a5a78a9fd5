"""What a training begins and ends with."""

import numpy as np
import pytest
import tensorflow as tf

from tests.trainers.training_options import CONFIG, changed
from trainers.training import fit


def _weights(seed):
    options = changed(seed=seed)
    model = fit._make_model(CONFIG, options, tf.distribute.get_strategy())
    return model.get_weights()


def test_the_seed_decides_the_first_weights():
    one, again, other = _weights(7), _weights(7), _weights(8)
    for mine, same in zip(one, again, strict=True):
        np.testing.assert_array_equal(mine, same)
    drawn = [(a, b) for a, b in zip(one, other) if a.std() > 0]
    assert drawn
    assert not any(np.array_equal(a, b) for a, b in drawn)


@pytest.mark.parametrize(
    ("cooldown", "step", "first"),
    [
        # Without a falling rate all may go in.
        (0, 900, 0),
        # Of one that falls over the last 300, those of the last 100.
        (300, 900, 800),
        (300, 800, 800),
        # It ended before: what is there was made at a high rate throughout.
        (300, 799, 0),
    ],
)
def test_a_falling_rate_decides_what_is_averaged(cooldown, step, first):
    config = CONFIG.replace(train_steps=900, cooldown_steps=cooldown)
    assert fit._first_step_to_average(config, step) == first
