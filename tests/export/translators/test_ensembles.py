"""Model directories that decode together."""

import shutil

import numpy as np
import pytest

import keras_transformer as kt
from export.common.errors import InputError
from export.model_directory import ModelDirectory
from export.translators.translator import Translator, load_models
from tests import made_up_text
from tests.export import commands, tiny

TEXTS = made_up_text.sentences()[:4]


@pytest.fixture(scope="module")
def paths(model_path, tmp_path_factory):
    """Two models of the same vocabulary."""
    path = tmp_path_factory.mktemp("other")
    shutil.copytree(model_path, path, dirs_exist_ok=True)
    model = ModelDirectory(path).load_model()
    generator = np.random.default_rng(2)
    for weight in model.trainable_variables:
        weight.assign_add(generator.normal(0, 0.1, weight.shape))
    ModelDirectory(path).write_weights(model)
    return [model_path, path]


def test_scores_are_the_mean_of_the_models_own(paths):
    each = [
        Translator.from_directory(path).score(TEXTS, TEXTS[::-1])
        for path in paths
    ]
    together = Translator(*load_models(paths)).score(TEXTS, TEXTS[::-1])
    # Normalizing a geometric mean can only add.
    assert np.all(together >= np.mean(each, axis=0) - 1e-4)
    assert np.all(together <= np.max(each, axis=0) + 5.0)


def test_two_copies_of_a_model_translate_as_one(model_path, translator):
    expected = translator.align(TEXTS)
    code, lines, err = commands.run(
        *("export.translate", model_path, TEXTS, f"--model={model_path}"),
        *("--alignments", "--ensemble_mean=probabilities"),
    )
    assert (code, err) == (0, [])
    assert lines == [
        f"{each.text}\t" + " ".join(f"{s}-{t}" for s, t in each.alignment)
        for each in expected
    ]


def test_models_that_do_not_go_together_are_refused(model_path, tmp_path):
    made = kt.Transformer(tiny.config(vocabulary_size=100))
    directory = ModelDirectory(tmp_path)
    directory.write_config(made.config)
    directory.write_run({"dataset": "made up"})
    directory.write_vocabulary(made_up_text.vocabulary(100))
    directory.write_weights(made)
    with pytest.raises(InputError, match="vocabularies"):
        load_models([model_path, tmp_path])
    with pytest.raises(InputError, match="--ensemble_mean"):
        load_models([model_path], "probabilities")
