import numpy as np
import pytest

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
    select_teacher_layers,
)


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
    """Of the same architecture, with other fields of training and search."""
    changes = {"dropout": 0.3, "label_smoothing": 0.2, "train_steps": 7}
    model = minute_model(seed=2, beam_size=7, r_drop=2.0, **changes)
    state = [variable.numpy() for variable in model.optimizer.variables]
    ModelInitializer(directory).load(model)
    expected = weights_of(directory.load_model())
    assert largest_difference(weights_of(model), expected) == 0
    # The optimizer starts anew.
    after = [variable.numpy() for variable in model.optimizer.variables]
    assert all(map(np.array_equal, state, after))


@pytest.mark.parametrize("kind", [ModelInitializer, LayerInitializer])
def test_another_architecture_is_refused(directory, kind):
    initializer = kind(directory)
    for name, needed, value in (
        ("vocabulary_size", 13, 14),
        ("d_ff", 12, 13),
        ("norm", "post", "pre"),
        ("output_bias", False, True),
    ):
        with pytest.raises(InputError) as caught:
            initializer.validate_config(minute_config(**{name: value}))
        assert f"{name}={needed}, not {value}" in str(caught.value)
        assert f"--{kind.flag}={directory.path}" in str(caught.value)
    # Only a teacher may have more layers.
    config = minute_config(num_layers=2)
    if kind is LayerInitializer:
        initializer.validate_config(config)
    else:
        with pytest.raises(InputError, match="num_layers=1, not 2"):
            initializer.validate_config(config)


@pytest.mark.parametrize(
    ("layers", "origins"),
    [
        # Where transformers' make_student takes the same.
        ((12, 1), [1]),
        ((12, 6), [1, 3, 5, 8, 10, 12]),
        ((6, 6), [1, 2, 3, 4, 5, 6]),
        # And where the student is the deeper one.
        ((2, 4), [1, 1, 2, 2]),
    ],
)
def test_a_students_layers_are_a_teachers_at_even_distances(layers, origins):
    teacher, student = (
        minute_config(num_layers=5, num_decoder_layers=each) for each in layers
    )
    assert select_teacher_layers(student, teacher) == {
        "encoder": [1, 2, 3, 4, 5],
        "decoder": origins,
    }


def test_a_student_starts_with_layers_of_its_teacher(tmp_path, capsys):
    teacher = minute_model(seed=1, num_layers=3, num_decoder_layers=2)
    directory = _write(tmp_path / "m", teacher)
    student = minute_model(seed=2, num_layers=2, num_decoder_layers=1)
    LayerInitializer(directory).load(student)
    assert (
        f"The encoder starts with layers of {directory.path}: 1, 3."
        in capsys.readouterr().out
    )
    for own, origin in (
        (student.encoder.layers[0], teacher.encoder.layers[0]),
        (student.encoder.layers[1], teacher.encoder.layers[2]),
        (student.decoder.layers[0], teacher.decoder.layers[0]),
        (student.target_embedding, teacher.target_embedding),
    ):
        assert origin.get_weights()
        assert largest_difference(own.get_weights(), origin.get_weights()) == 0


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
