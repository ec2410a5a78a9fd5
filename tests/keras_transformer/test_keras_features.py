"""What a Keras user does with every model: export, quantize, summary, LoRA."""

import importlib.util

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.layers.base import Projection
from tests.keras_transformer import helpers

INPUTS = helpers.padded_inputs()
# The same names, another batch size and other lengths.
OTHERS = {name: ids[:2, : 3 + len(name) % 2] for name, ids in INPUTS.items()}

tensorflow_only = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="of TensorFlow's exporters"
)
needs_tensorflow = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="Keras exports by it"
)
pytestmark = [
    pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`"),
    # Keras, to JAX.
    pytest.mark.filterwarnings("ignore:.*`native_serialization` parameter"),
]


def new_model(**changes):
    model = kt.Transformer(helpers.config(**{"num_layers": 1, **changes}))
    helpers.randomise(model, seed=2)
    return model


def compiled(model):
    model.compile(
        optimizer=keras.optimizers.Adam(1e-2),
        loss=kt.LabelSmoothedCrossEntropy(0.1),
        jit_compile=helpers.JITTED,
        run_eagerly=not helpers.JITTED,
    )
    return model


def fit(model, **kwargs):
    history = compiled(model).fit(
        INPUTS, INPUTS["target"], shuffle=False, verbose=0, **kwargs
    )
    return history.history["loss"]


def relative_error(actual, expected):
    return helpers.relative_error(np.asarray(actual, "float64"), expected)


def answer(model, inputs=INPUTS):
    """Not from `helpers.logits`, which may have compiled the model before."""
    return helpers.to_numpy(helpers.jitted(lambda ids: model(ids))(inputs))


def serve(path, inputs):
    """Answers as TensorFlow, with none of our code."""
    import tensorflow as tf

    # Its functions do not keep their variables alive.
    artifact = tf.saved_model.load(str(path))
    return artifact.serve(inputs).numpy()


@pytest.mark.parametrize("name", ["fresh", "fitted", "packed"])
@needs_tensorflow
def test_an_export_gives_the_same_logits(name, tmp_path):
    model = new_model(positions="learned" if name == "fresh" else "sinusoidal")
    batches, signature = [INPUTS, OTHERS], None
    if name == "fitted":
        fit(model)
        model.predict(INPUTS, verbose=0)
    if name == "packed":
        packed = dict(INPUTS)
        for side, ids in INPUTS.items():
            packed[f"{side}_segments"] = np.minimum(ids, 1)
            packed[f"{side}_positions"] = np.zeros_like(ids)
        batches = [packed]
        # JAX takes unknown lengths of different inputs for different ones.
        signature = [
            {
                name: keras.InputSpec("int32", (None, ids.shape[1]), name=name)
                for name, ids in packed.items()
            }
        ]
    model.export(tmp_path / "e", verbose=False, input_signature=signature)
    for inputs in batches:
        expected = helpers.logits(model, inputs)
        assert relative_error(serve(tmp_path / "e", inputs), expected) <= 1e-5


@tensorflow_only
@helpers.newer_keras(3, 13)
@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
def test_litert_gives_the_same_logits(tmp_path):
    import tensorflow as tf

    model = new_model()
    path = str(tmp_path / "model.tflite")
    model.export(path, format="litert", verbose=False)
    runner = tf.lite.Interpreter(path).get_signature_runner()
    for inputs in (INPUTS, OTHERS):
        expected = helpers.logits(model, inputs)
        assert relative_error(runner(**inputs)["output_0"], expected) <= 1e-5


@pytest.mark.parametrize(
    "mode, largest",
    [
        ("int8", 0.03),
        pytest.param("int4", 0.3, marks=helpers.newer_keras(3, 12)),
        ("float8", 0.15),
    ],
)
def test_quantized_projections_give_similar_logits(mode, largest, tmp_path):
    model = new_model()
    expected = helpers.logits(model, INPUTS)
    table = model.output_embedding.embeddings
    model.quantize(mode)
    modes = {
        layer.quantization_mode
        for layer in model._flatten_layers()
        if isinstance(layer, Projection)
    }
    assert modes == {mode}
    assert model.output_embedding.embeddings is table
    quantized = answer(model)
    assert 1e-4 < relative_error(quantized, expected) < largest
    model.save_weights(tmp_path / "model.weights.h5")
    other = new_model()
    other.quantize(mode)
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(answer(other), quantized)


@needs_tensorflow
def test_a_quantized_model_is_exported_but_not_saved(tmp_path):
    model = new_model()
    ids = keras.Input((None, 12))
    layers = keras.Model(ids, kt.EncoderLayer(5, 2, 3)(ids))
    for each in (model, layers):
        each.quantize("int8")
        for copy in (
            lambda each=each: each.save(tmp_path / "model.keras"),
            lambda each=each: keras.models.clone_model(each),
        ):
            with pytest.raises(ValueError, match="save it before `quantize`"):
                copy()
    model.export(tmp_path / "e", verbose=False)
    expected = answer(model)
    # A value near the middle between two integers may round either way.
    assert relative_error(serve(tmp_path / "e", INPUTS), expected) <= 0.03
    best = kt.translate_ids(model, INPUTS["source"], max_length=4)
    assert np.isfinite(helpers.to_numpy(best.scores)).all()


@helpers.newer_keras(3, 13)
@pytest.mark.parametrize("name", ["GPTQConfig", "AWQConfig"])
def test_calibrating_modes_are_refused(name):
    config = getattr(keras.quantizers, name)(dataset=["a"], tokenizer=str.split)
    model = new_model()
    with pytest.raises(ValueError, match="expected int8, int4 or float8"):
        model.quantize(config=config)
    assert all(not layer.quantization_mode for layer in model._flatten_layers())


def test_the_summary_has_names_shapes_and_parameters(monkeypatch):
    # Of the terminal, in which a name fits on one line.
    monkeypatch.setenv("COLUMNS", "120")
    lines = []
    model = new_model(num_layers=2)
    model.summary(expand_nested=True, print_fn=lines.append)
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in "".join(lines).splitlines()
        if line.startswith("│")
    ]
    shape = "(None, None, 12)"
    encoder, decoder = model.encoder.layers, model.decoder.layers
    for name, layer in (
        ("target_embedding (SharedEmbedding)", model.target_embedding),
        ("encoder (Encoder)", model.encoder),
        ("└ layer_2 (EncoderLayer)", encoder[1]),
        ("decoder (Decoder)", model.decoder),
        ("└ layer_1 (DecoderLayer)", decoder[0]),
    ):
        assert [name, shape, f"{layer.count_params():,}"] in rows
    assert f"Total params: {model.count_params():,}" in "".join(lines)


def test_copies_by_configuration():
    model = new_model()
    copies = [
        keras.models.clone_model(model),
        keras.models.model_from_json(model.to_json()),
        kt.Transformer.from_config(model.get_config()),
    ]
    expected = helpers.logits(model, INPUTS)
    for copy in copies:
        assert copy.config == model.config
        copy.set_weights(model.get_weights())
        np.testing.assert_array_equal(helpers.logits(copy, INPUTS), expected)


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        return INPUTS, INPUTS["target"]


@needs_tensorflow
def test_fit_continues_after_evaluate_save_load_and_export(tmp_path):
    model = new_model()
    losses = fit(model, epochs=2)
    evaluated = model.evaluate(INPUTS, INPUTS["target"], verbose=0)
    model.save(tmp_path / "model.keras")
    model.export(tmp_path / "e", verbose=False)
    model = keras.saving.load_model(tmp_path / "model.keras")
    again = model.evaluate(INPUTS, INPUTS["target"], verbose=0)
    assert again == pytest.approx(evaluated, rel=1e-5)
    history = model.fit(Batches(), shuffle=False, verbose=0, epochs=2)
    losses += history.history["loss"]
    assert losses == sorted(losses, reverse=True)
    assert int(model.optimizer.iterations) == 4


@pytest.mark.filterwarnings("ignore:Skipping variable loading for optimizer")
def test_lora_trains_its_own_weights_and_is_saved_merged(tmp_path):
    model = new_model()
    for weight in model.weights:
        weight.trainable = False
    layers = [*model.encoder.layers, *model.decoder.layers]
    for layer in layers:
        layer.self_attention.query_key_value.enable_lora(2)
    names = [weight.name for weight in model.trainable_weights]
    assert names == ["lora_kernel_a", "lora_kernel_b"] * len(layers)
    table = helpers.to_numpy(model.target_embedding.embeddings)
    first, second, third = fit(model, epochs=3)
    assert third < second < first
    np.testing.assert_array_equal(
        helpers.to_numpy(model.target_embedding.embeddings), table
    )
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.count_params() == new_model().count_params()
    assert relative_error(answer(loaded), answer(model)) <= 1e-5


# Keras 3.10 takes one input for a list of one.
@pytest.mark.filterwarnings("ignore:(?s).*structure of `inputs` doesn't match")
def test_the_encoder_in_a_functional_classifier(tmp_path):
    model = new_model()
    ids = keras.Input((None,), dtype="int32")
    mean = keras.layers.GlobalAveragePooling1D()
    states = mean(model.encode(ids), mask=keras.ops.not_equal(ids, 0))
    classifier = keras.Model(ids, keras.layers.Dense(2)(states))
    source = INPUTS["source"]
    expected = helpers.to_numpy(classifier(source))
    padded = np.pad(source, ((0, 0), (0, 4)))
    found = helpers.to_numpy(classifier(padded))
    assert relative_error(found, expected) <= 1e-5
    classifier.save(tmp_path / "classifier.keras")
    loaded = keras.saving.load_model(tmp_path / "classifier.keras")
    found = helpers.to_numpy(loaded(source))
    assert relative_error(found, expected) <= 1e-5
