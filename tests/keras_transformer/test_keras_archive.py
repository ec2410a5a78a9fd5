"""`model.save("x.keras")` and `keras.saving.load_model`, as Keras' users do."""

import importlib
import inspect
import json
import pathlib
import pkgutil
import shutil
import zipfile

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.presets import PRESETS
from tests.damage import flip_bit
from tests.keras_transformer import helpers

# What a preset says besides its sizes stays as it is.
SIZES = {
    "vocabulary_size": 11,
    "num_layers": 1,
    "d_model": 8,
    "d_ff": 10,
    "num_heads": 2,
    "d_k": 4,
    "d_v": 4,
    "max_positions": 24,
}
OF_TRAINING_ALONE = {
    "train_steps": 1,
    "cooldown_steps": 0,
    "learning_rate_scale": 1.0,
    "batch_tokens": 1,
    "beam_size": 1,
}


# The others take half a minute together.
QUICK = ("base", "E-learned", "multi30k-tiny")


def small_presets():
    """One name of each set of presets that differ in size alone."""
    seen = {}
    for name in PRESETS:
        config = kt.TransformerConfig.preset(name, **SIZES)
        kind = config.replace(**OF_TRAINING_ALONE)
        seen.setdefault(kind, name)
    return [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in seen.values()
    ]


def fitted(config):
    """A model as the README compiles it, after one update."""
    keras.utils.set_random_seed(1)
    model = kt.Transformer(config)
    model.compile(
        optimizer=keras.optimizers.Adam(
            kt.TransformerSchedule(config.d_model, config.warmup_steps),
            beta_1=config.adam_beta_1,
            beta_2=config.adam_beta_2,
            epsilon=config.adam_epsilon,
            global_clipnorm=config.clip_norm or None,
        ),
        loss=kt.LabelSmoothedCrossEntropy(config.label_smoothing),
        jit_compile=helpers.JITTED,
        run_eagerly=not helpers.JITTED,
    )
    update(model)
    return model


def update(model):
    inputs = helpers.padded_inputs()
    model.fit(inputs, inputs["target"], batch_size=8, shuffle=False, verbose=0)


def seeds(model):
    """The states of dropout's random numbers."""
    return [each for each in model.variables if "seed" in each.path]


def check_equal(one, other, allowed=0.0):
    """Weights, and the optimizer's moments and steps."""
    for part in (lambda model: model.weights, lambda m: m.optimizer.variables):
        ours, theirs = part(one), part(other)
        assert len(ours) == len(theirs)
        for value, wanted in zip(theirs, ours):
            np.testing.assert_allclose(
                helpers.to_numpy(value),
                helpers.to_numpy(wanted),
                rtol=0,
                atol=allowed,
            )


@pytest.fixture(name="archive", scope="module")
def fixture_archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "model.keras"
    fitted(helpers.config()).save(path)
    return path


@pytest.mark.parametrize("name", small_presets())
def test_a_fitted_preset_goes_on_training_where_it_was(name, tmp_path):
    model = fitted(kt.TransformerConfig.preset(name, **SIZES))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.config == model.config
    assert again.optimizer.get_config() == model.optimizer.get_config()
    assert again.loss.get_config() == model.loss.get_config()
    check_equal(model, again)
    # Keras leaves these out of what it saves.
    for state, wanted in zip(seeds(again), seeds(model), strict=True):
        state.assign(keras.ops.convert_to_numpy(wanted))
    update(model)
    update(again)
    assert int(again.optimizer.iterations) == 2
    # What is compiled twice rounds in two ways.
    check_equal(model, again, 1e-5 if helpers.JITTED else 0.0)


def test_weights_of_a_fitted_model_fit_a_fresh_one(tmp_path):
    model = fitted(helpers.config(norm="pre"))
    model.save_weights(tmp_path / "model.weights.h5")
    fresh = fitted(model.config)
    update(fresh)
    fresh.load_weights(tmp_path / "model.weights.h5")
    check_equal(model, fresh)


def test_every_class_that_is_saved_is_registered():
    kinds = (
        keras.layers.Layer,
        keras.losses.Loss,
        keras.metrics.Metric,
        keras.optimizers.Optimizer,
        keras.optimizers.schedules.LearningRateSchedule,
        keras.initializers.Initializer,
    )
    found = set()
    for info in pkgutil.walk_packages(kt.__path__, "keras_transformer."):
        # The one module that needs TensorFlow holds nothing of Keras.
        if info.name.endswith(".tokenizer"):
            continue
        members = vars(importlib.import_module(info.name)).values()
        found |= {
            each
            for each in members
            if inspect.isclass(each)
            and issubclass(each, kinds)
            and each.__module__.startswith("keras_transformer.")
        }
    assert {kt.Transformer, kt.MultiHeadAttention} < found
    public = {each for each in found if each.__name__ in kt.__all__}
    # What public ones derive from is never saved itself.
    bases = {base for each in public for base in each.__mro__[1:]}
    assert public & bases == set()
    for each in found - bases:
        name = keras.saving.get_registered_name(each)
        assert name == f"keras_transformer>{each.__name__}"
        assert keras.saving.get_registered_object(name) is each


def test_an_archive_holds_no_code(archive):
    with zipfile.ZipFile(archive) as file:
        assert set(file.namelist()) == {
            "metadata.json",
            "config.json",
            "model.weights.h5",
        }
        config = file.read("config.json").decode("utf-8")
    assert "lambda" not in config.lower()


def rewritten(archive, path, change):
    """Copies an archive with another config.json."""
    with (
        zipfile.ZipFile(archive) as source,
        zipfile.ZipFile(path, "w") as target,
    ):
        for name in source.namelist():
            content = source.read(name)
            if name == "config.json":
                config = json.loads(content)
                change(config)
                content = json.dumps(config).encode("utf-8")
            target.writestr(name, content)
    return path


def test_loading_runs_no_code_of_the_archive(archive, tmp_path):
    trace = tmp_path / "ran"

    def call_the_shell(config):
        config.update(
            module="os",
            class_name="system",
            registered_name=None,
            config={"command": f"touch {trace}"},
        )

    def be_a_lambda(config):
        with pytest.warns(UserWarning, match="unsafe"):
            function = keras.saving.serialize_keras_object(
                lambda x, path=str(trace): pathlib.Path(path).touch()
            )
        config.update(
            module="keras.layers",
            class_name="Lambda",
            registered_name=None,
            config={"name": "l", "function": function, "arguments": {}},
        )

    for number, change in enumerate((call_the_shell, be_a_lambda)):
        path = rewritten(archive, tmp_path / f"{number}.keras", change)
        with pytest.raises((ValueError, TypeError)):
            keras.saving.load_model(path)
    assert not trace.exists()


def test_a_configuration_out_of_range_is_refused(archive, tmp_path):
    def no_heads(config):
        config["config"]["config"]["num_heads"] = 0

    path = rewritten(archive, tmp_path / "model.keras", no_heads)
    with pytest.raises((ValueError, TypeError), match="num_heads"):
        keras.saving.load_model(path)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 0.999])
def test_a_truncated_archive_is_refused(archive, tmp_path, share):
    path = tmp_path / "model.keras"
    content = archive.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises((ValueError, OSError, zipfile.BadZipFile)):
        keras.saving.load_model(path)


def test_a_changed_byte_of_the_weights_is_noticed(archive, tmp_path):
    path = tmp_path / "model.keras"
    shutil.copy(archive, path)
    with zipfile.ZipFile(archive) as file:
        info = file.getinfo("model.weights.h5")
    flip_bit(path, info.header_offset + info.compress_size // 2)
    with pytest.raises((ValueError, OSError, zipfile.BadZipFile)):
        keras.saving.load_model(path)
