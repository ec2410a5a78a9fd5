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
    teacher_layers,
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
    "stop_criterion": "heuristic",
    "max_extra_tokens": 11,
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
    "first_source_word_id": 5,
    "first_target_word_id": 5,
}


def _write(path, model):
    directory = ModelDirectory(path)
    directory.write_config(model.config)
    directory.write_weights(model)
    return directory


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A trained model, which no test may change."""
    folder = tmp_path_factory.mktemp("trained")
    return _write(folder / "old", minute_model(seed=1))


def test_a_new_training_starts_with_the_weights_of_a_model(directory):
    contents = {p.name: p.read_bytes() for p in directory.path.iterdir()}
    model = minute_model(seed=2, **OTHER_TRAINING)
    state = [variable.numpy() for variable in model.optimizer.variables]
    ModelInitializer(directory).load(model)
    expected = weights_of(directory.load_model())
    assert largest_difference(weights_of(model), expected) == 0
    # The optimizer starts anew.
    after = [variable.numpy() for variable in model.optimizer.variables]
    assert all(map(np.array_equal, state, after))
    assert int(model.optimizer.iterations) == 0
    for path in directory.path.iterdir():
        assert path.read_bytes() == contents.pop(path.name)
    assert not contents


def test_every_field_is_of_the_model_or_of_the_training():
    """A new field must be added to one of them."""
    fields = {each.name for each in dataclasses.fields(kt.TransformerConfig)}
    of_model = OTHER_MODEL.keys() | COUNTED_WORDS.keys()
    assert fields == of_model | OTHER_TRAINING.keys()
    assert not OTHER_MODEL.keys() & OTHER_TRAINING.keys()


def _other_config(name):
    changes = {name: OTHER_MODEL[name]}
    if name == "source_vocabulary_size":
        # Otherwise there is no such configuration.
        changes["share_embeddings"] = "none"
    return minute_config(**changes)


@pytest.mark.parametrize("kind", [ModelInitializer, LayerInitializer])
def test_another_architecture_is_refused(directory, kind):
    initializer = kind(directory)
    names = OTHER_MODEL.keys()
    if kind is LayerInitializer:
        names -= {"num_layers", "num_decoder_layers"}
    for name in names:
        needed = getattr(minute_config(), name)
        with pytest.raises(InputError) as caught:
            initializer.validate_config(_other_config(name))
        message = str(caught.value)
        assert f"{name}={needed}, not {OTHER_MODEL[name]}" in message
        assert f"--{kind.flag}={directory.path}" in message


@pytest.mark.parametrize(
    "name", ["first_source_word_id", "first_target_word_id"]
)
def test_a_model_with_other_word_ids_is_refused(tmp_path, name):
    directory = ModelDirectory(tmp_path / "old")
    directory.write_config(minute_config(**COUNTED_WORDS))
    config = minute_config(**COUNTED_WORDS | {name: 6})
    with pytest.raises(InputError, match=f"{name}=5, not 6"):
        ModelInitializer(directory).validate_config(config)


def test_an_equal_architecture_written_differently_is_not_refused(directory):
    config = minute_config(num_decoder_layers=minute_config().num_layers)
    assert config != directory.read_config()
    ModelInitializer(directory).validate_config(config)


def test_a_refused_model_changes_nothing(directory, tmp_path):
    model = minute_model(seed=2, d_ff=13)
    before = weights_of(model)
    with pytest.raises(InputError, match="d_ff=12, not 13"):
        ModelInitializer(directory).load(model)
    assert largest_difference(weights_of(model), before) == 0
    shutil.copy(directory.config_path, tmp_path)
    for path, name in ((tmp_path, "weights.h5"), (tmp_path / "no", "config")):
        with pytest.raises(InputError, match=name):
            ModelInitializer(ModelDirectory(path)).load(minute_model(seed=2))


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
    assert teacher_layers(student, teacher) == {
        "encoder": [1, 2, 3, 4, 5],
        "decoder": origins,
    }


def test_a_student_starts_with_layers_of_its_teacher(tmp_path, capsys):
    teacher = minute_model(seed=1, num_layers=3, num_decoder_layers=2)
    directory = _write(tmp_path / "m", teacher)
    student = minute_model(seed=2, num_layers=2, num_decoder_layers=1)
    LayerInitializer(directory).load(student)
    out = capsys.readouterr().out
    for name, origins in (("encoder", [0, 2]), ("decoder", [0])):
        numbers = ", ".join(str(origin + 1) for origin in origins)
        assert (
            f"The {name} starts with layers of {directory.path}: {numbers}."
            in out
        )
        own, others = getattr(student, name), getattr(teacher, name)
        for layer, origin in zip(own.layers, origins, strict=True):
            expected = others.layers[origin].get_weights()
            assert expected
            for one, other in zip(layer.get_weights(), expected, strict=True):
                np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(
        student.target_embedding.get_weights(),
        teacher.target_embedding.get_weights(),
    )


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_deeper_student_starts_as_its_teacher(tmp_path, norm):
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
    directory = _write(tmp_path / "m", model)
    student = minute_model(2, num_layers=5, num_decoder_layers=3, norm=norm)
    LayerInitializer(directory).load(student)
    ids = np.array([[5, 7, 6, 3], [8, 3, 0, 0]], "int32")
    inputs = {"source": ids, "target": ids}
    expected = np.array(model(inputs))
    assert np.ptp(expected) > 1
    np.testing.assert_allclose(student(inputs), expected, atol=2e-3)
