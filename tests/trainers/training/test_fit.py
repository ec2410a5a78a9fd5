"""What a training begins with."""

import numpy as np
import tensorflow as tf

from tests.trainers.training_plans import CONFIG, changed
from trainers.training import fit


def _weights(seed):
    model = fit._new_model(
        CONFIG, changed(seed=seed), tf.distribute.get_strategy()
    )
    return model.get_weights()


def test_the_seed_decides_the_first_weights():
    one, again, other = _weights(7), _weights(7), _weights(8)
    for mine, same in zip(one, again, strict=True):
        np.testing.assert_array_equal(mine, same)
    drawn = [(a, b) for a, b in zip(one, other) if a.std() > 0]
    assert drawn
    assert not any(np.array_equal(a, b) for a, b in drawn)
