"""What training relies on in Keras beyond its public interface.

A failure names the release of Keras that broke it.
"""

import pathlib
import tomllib

import keras
import numpy as np
import pytest
import tensorflow as tf
from packaging.requirements import Requirement
from packaging.version import Version

from trainers.training import keras_internals as keras_internals

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _names_the_release():
    """Prints what pytest shows where a test fails."""
    print(
        f"Keras {keras.__version__} may have changed this: put "
        "trainers/training/optimizer.py right, or lower pyproject.toml's bound."
    )


def test_pyproject_allows_the_keras_seen_here_and_no_newer():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (bound,) = (
        requirement.specifier
        for requirement in map(Requirement, project["dependencies"])
        if requirement.name == "keras"
    )
    seen = Version(keras.__version__)
    assert seen in bound
    assert f"{seen.major}.{seen.minor + 1}.0" not in bound
    assert f"{seen.major + 1}.0.0" not in bound


def test_fit_asks_the_model_for_its_symbolic_build(monkeypatch):
    """Or the mixin would no longer keep it from being made."""

    class Model(keras_internals.SkipSymbolicBuild, keras.Sequential):
        pass

    asked = []
    monkeypatch.setattr(
        keras_internals.SkipSymbolicBuild,
        "_maybe_symbolic_build",
        lambda self, **given: asked.append(sorted(given)),
    )
    model = Model([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse", run_eagerly=True)
    data = tf.data.Dataset.from_tensors((np.ones((4, 3)), np.ones((4, 2))))
    model.fit(data, shuffle=False, verbose=0)
    model.evaluate(data, verbose=0)
    assert asked == [["iterator"], ["iterator"]]


def test_all_layers_are_found_once_at_any_depth():
    one, other = (keras.layers.Dropout(0.5) for _ in range(2))
    model = keras.Sequential(
        [keras.Input((3,)), one, keras.Sequential([other, one])]
    )
    layers = list(keras_internals.all_layers(model))
    assert sum(layer is one for layer in layers) == 1
    assert sum(layer is other for layer in layers) == 1


def test_adam_moments_are_the_means_of_gradients_and_their_squares():
    optimizer = keras.optimizers.Adam(0.1, beta_1=0.9, beta_2=0.98)
    variables = [keras.Variable(np.ones(2, "float32")) for _ in range(2)]
    optimizer.build(variables)
    gradients = [np.array([3.0, -1.0]), np.array([0.5, 2.0])]
    optimizer.apply([tf.constant(each, tf.float32) for each in gradients])
    for variable, gradient in zip(variables, gradients):
        momentum, velocity = keras_internals.adam_moments(
            optimizer, variable.value
        )
        for moment, expected in (
            (momentum, 0.1 * gradient),
            (velocity, 0.02 * gradient**2),
        ):
            np.testing.assert_allclose(moment.numpy(), expected, rtol=1e-5)


def test_dropout_draws_from_the_seeds_that_were_changed():
    layer = keras.layers.Dropout(0.5)
    inputs = tf.ones((8, 8))
    first, second = (layer(inputs, training=True).numpy() for _ in range(2))
    assert (first != second).any()
    keras_internals.transform_seeds(layer.seed_generator, tf.zeros_like)
    first, second = (layer(inputs, training=True).numpy() for _ in range(2))
    np.testing.assert_array_equal(first, second)
