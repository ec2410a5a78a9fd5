"""Small models whose every variable has a value of its own."""

import keras
import numpy as np

# The measures of the dev split that each step's checkpoint holds.
HISTORIES = {
    step: [{"step": n, "loss": 1 / n} for n in range(10, step + 1, 10)]
    for step in (10, 20, 30)
}


def new_model(units=3):
    """A model with weights, random state and an optimizer's state."""
    model = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(units),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(1),
        ]
    )
    model.compile(optimizer="adam", loss="mse")
    model.optimizer.build(model.trainable_variables)
    return model


def _variables(model):
    states = [
        v for v in model.non_trainable_variables if "seed" in v.path.lower()
    ]
    assert states
    return [*model.weights, *states, *model.optimizer.variables]


def fill(model, seed):
    """Gives every variable a value of its own."""
    generator = np.random.default_rng(seed)
    for variable in _variables(model):
        value = 100 * generator.random(variable.shape)
        variable.assign(value.astype(variable.dtype))
    return values_of(model)


def values_of(model):
    return [np.array(variable.numpy()) for variable in _variables(model)]


def same(one, other):
    return all((a == b).all() for a, b in zip(one, other, strict=True))
