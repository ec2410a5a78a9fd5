import dataclasses
import shutil

import numpy as np
import pytest

import keras_transformer as kt
from export.common.errors import InputError
from export.model_directory import ModelDirectory
from tests.trainers.helpers import (
    largest_difference,
    minute_config,
    minute_model,
    weights_of,
)
from trainers.training.initial_weights import (
    LayerInitializer,
    ModelInitializer,
    layer_origins,
)

# Another training of the same model: every field that may differ, does.
OTHER_TRAINING = {
    "dropout": 0.3,
    "attention_dropout": 0.2,
    "activation_dropout": 0.1,
    "label_smoothing": 0.2,
    "r_drop": 2.0,
    "batch_tokens": 99,
    "train_steps": 7,
    "warmup_steps": 9,
    "cooldown_steps": 5,
    "learning_rate_scale": 0.7,
    "adam_beta_1": 0.8,
    "adam_beta_2": 0.9,
    "adam_epsilon": 1e-6,
    "clip_norm": 0.5,
    "average_checkpoints": 3,
    "beam_size": 7,
    "alpha": 0.9,
    "length_penalty": "power",
    "stop": "likely",
    "max_output_extra": 11,
}
# A value that is not the minute model's, of every other field.
OTHER_MODEL = {
    "vocabulary_size": 14,
    "source_vocabulary_size": 14,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "d_model": 16,
    "d_ff": 13,
    "num_heads": 1,
    "d_k": 5,
    "d_v": 5,
    "norm": "pre",
    "activation": "gelu",
    "positions": "learned",
    "max_positions": 99,
    "share_embeddings": "none",
    "attention_bias": False,
    "attention_window": 1,
    "layer_norm_epsilon": 1e-3,
    "output_bias": True,
    "sinusoid_rates": "marian",
}


# These go together.
COUNTED_WORDS = {
    "positions": "words",
    "source_words_from": 5,
    "target_words_from": 5,
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A trained model, which no test may change."""
    directory = ModelDirectory(tmp_path_factory.mktemp("trained") / "old")
    directory.write_config(minute_config())
    directory.write_weights(minute_model(seed=1))
    return directory


def test_a_new_training_begins_with_the_weights_of_another(directory):
    model = minute_model(seed=2, **OTHER_TRAINING)
    state = [variable.numpy() for variable in model.optimizer.variables]
    ModelInitializer(directory).load(model)
    expected = weights_of(directory.load_model())
    assert largest_difference(weights_of(model), expected) == 0
    assert largest_difference(weights_of(minute_model(2)), expected) > 0.1
    # Of a new training: no moments, no updates made.
    after = [variable.numpy() for variable in model.optimizer.variables]
    assert all(map(np.array_equal, state, after))
    assert int(model.optimizer.iterations) == 0


def test_the_other_model_is_left_as_it_was(directory):
    def contents():
        return {p.name: p.read_bytes() for p in directory.path.iterdir()}

    before = contents()
    model = minute_model(seed=2)
    ModelInitializer(directory).load(model)
    assert contents() == before


def test_every_field_is_of_the_model_or_of_the_training():
    """A new field must be put among the one or the other."""
    fields = {each.name for each in dataclasses.fields(kt.TransformerConfig)}
    of_model = OTHER_MODEL.keys() | COUNTED_WORDS.keys()
    assert fields == of_model | OTHER_TRAINING.keys()
    assert not OTHER_MODEL.keys() & OTHER_TRAINING.keys()


@pytest.mark.parametrize("name", OTHER_MODEL)
def test_another_model_is_refused(directory, name):
    value = OTHER_MODEL[name]
    there = getattr(minute_config(), name)
    assert there != value
    changes = {name: value}
    if name == "source_vocabulary_size":
        # Else there is no such configuration.
        changes["share_embeddings"] = "none"
    config = minute_config(**changes)
    with pytest.raises(InputError) as caught:
        ModelInitializer(directory).validate_config(config)
    assert str(caught.value) == (
        f"The model of --init_from={directory.path} has {name}={there}, not "
        f"{value}; use --set={name}={there}."
    )


@pytest.mark.parametrize("name", ["source_words_from", "target_words_from"])
def test_a_model_that_counts_other_words_is_refused(tmp_path, name):
    directory = ModelDirectory(tmp_path / "old")
    directory.write_config(minute_config(**COUNTED_WORDS))
    config = minute_config(**COUNTED_WORDS | {name: 6})
    with pytest.raises(InputError, match=f"{name}=5, not 6"):
        ModelInitializer(directory).validate_config(config)


def test_the_same_model_written_otherwise_is_not_refused(directory):
    config = minute_config(num_decoder_layers=minute_config().num_layers)
    assert config != directory.read_config()
    ModelInitializer(directory).validate_config(config)


def test_a_refused_model_changes_nothing(directory):
    model = minute_model(seed=2, d_ff=13)
    before = weights_of(model)
    with pytest.raises(InputError, match="d_ff=12, not 13"):
        ModelInitializer(directory).load(model)
    assert largest_difference(weights_of(model), before) == 0


def test_without_weights_it_is_no_model_to_begin_with(directory, tmp_path):
    shutil.copytree(directory.path, tmp_path / "old")
    directory = ModelDirectory(tmp_path / "old")
    directory.weights_path.unlink()
    with pytest.raises(InputError, match="model.weights.h5 is missing"):
        ModelInitializer(directory).load(minute_model(seed=2))


def test_a_folder_that_is_no_model_directory(tmp_path):
    directory = ModelDirectory(tmp_path / "gone")
    with pytest.raises(InputError, match="must be a model directory"):
        ModelInitializer(directory).validate_config(minute_config())


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """Of three encoder layers and two of the decoder."""
    directory = ModelDirectory(tmp_path_factory.mktemp("teacher") / "m")
    model = minute_model(seed=1, num_layers=3, num_decoder_layers=2)
    directory.write_config(model.config)
    directory.write_weights(model)
    return directory


@pytest.mark.parametrize(
    ("layers", "origins"),
    [
        # Where transformers' make_student takes the same.
        ((12, 1), [1]),
        ((12, 3), [1, 7, 12]),
        ((12, 6), [1, 3, 5, 8, 10, 12]),
        ((6, 3), [1, 3, 6]),
        ((6, 6), [1, 2, 3, 4, 5, 6]),
        # And where the student is the deeper one.
        ((2, 4), [1, 1, 2, 2]),
        ((6, 12), [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]),
        ((1, 3), [1, 1, 1]),
    ],
)
def test_a_students_layers_are_a_teachers_at_even_distances(layers, origins):
    teacher, student = (
        minute_config(num_layers=5, num_decoder_layers=each) for each in layers
    )
    assert layer_origins(student, teacher) == {
        "encoder": [1, 2, 3, 4, 5],
        "decoder": origins,
    }


def test_a_student_begins_with_layers_of_its_teacher(teacher, capsys):
    student = minute_model(seed=2, num_layers=2, num_decoder_layers=1)
    LayerInitializer(teacher).load(student)
    said = capsys.readouterr().out
    layers = f"Layers of {teacher.path} that the"
    assert f"{layers} encoder's begin as: 1, 3.\n" in said
    assert f"{layers} decoder's begin as: 1.\n" in said
    whole = teacher.load_model()
    for name, origins in (("encoder", [0, 2]), ("decoder", [0])):
        ours, theirs = getattr(student, name), getattr(whole, name)
        for layer, origin in zip(ours.layers, origins, strict=True):
            expected = theirs.layers[origin].get_weights()
            assert expected
            for one, other in zip(layer.get_weights(), expected, strict=True):
                np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(
        student.target_embedding.get_weights(),
        whole.target_embedding.get_weights(),
    )


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_deeper_student_begins_as_its_teacher_does(tmp_path, norm):
    model = minute_model(1, num_layers=2, num_decoder_layers=1, norm=norm)
    generator = np.random.default_rng(5)
    for weight in model.weights:
        if "layer_norm" not in weight.path:
            # Biases of a new model are 0.
            weight.assign(weight + generator.normal(0, 0.1, weight.shape))
        elif weight.path.endswith("beta"):
            weight.assign(weight + 0.02)
        else:
            weight.assign(weight * 1.5)
    directory = ModelDirectory(tmp_path / "m")
    directory.write_config(model.config)
    directory.write_weights(model)
    student = minute_model(2, num_layers=5, num_decoder_layers=3, norm=norm)
    LayerInitializer(directory).load(student)
    ids = np.array([[5, 7, 6, 3], [8, 3, 0, 0]], "int32")
    inputs = {"source": ids, "target": ids}
    expected = np.array(model(inputs))
    assert np.ptp(expected) > 1
    np.testing.assert_allclose(student(inputs), expected, atol=2e-3)


def test_a_student_of_other_widths_is_refused(teacher):
    config = minute_config(num_layers=1, d_ff=13)
    with pytest.raises(InputError) as caught:
        LayerInitializer(teacher).validate_config(config)
    assert str(caught.value) == (
        f"The model of --init_layers_from={teacher.path} has d_ff=12, not 13; "
        "use --set=d_ff=12."
    )
    # All else but the numbers of layers is asked for as well.
    for name in OTHER_MODEL.keys() - {"num_layers", "num_decoder_layers"}:
        changes = {name: OTHER_MODEL[name]}
        if name == "source_vocabulary_size":
            changes["share_embeddings"] = "none"
        with pytest.raises(InputError, match="--set="):
            LayerInitializer(teacher).validate_config(minute_config(**changes))
