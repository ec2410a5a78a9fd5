"""What Keras asks of a layer, of every public layer and the Transformer."""

import keras
import numpy as np
import pytest
from keras import tree
from keras.tree import map_structure as of_each

import keras_transformer as kt
from tests.keras_transformer import helpers
from tests.keras_transformer.layers.layer_samples import IDS, LAYERS, STATES

BACKEND = keras.backend.backend()
SAMPLES = dict(LAYERS)
SAMPLES["transformer"] = (
    lambda: kt.Transformer(helpers.config(num_layers=1)),
    [{"source": IDS, "target": IDS[:, :2]}],
)
ON_IDS = ["embedding", "transformer"]
TENSORFLOW = pytest.mark.skipif(
    BACKEND != "tensorflow", reason="of TensorFlow's tensors"
)

every_sample = pytest.mark.parametrize("name", SAMPLES)


def make(name):
    maker, arrays = SAMPLES[name]
    return maker(), arrays


def assert_same(actual, expected, tolerance=1e-5):
    actual, expected = map(helpers.to_numpy, (actual, expected))
    np.testing.assert_allclose(actual, expected, tolerance, tolerance)


@every_sample
def test_empty_and_single_inputs(name):
    layer, arrays = make(name)
    for batch, length in ((0, 2), (1, 1), (2, 0)):
        part = of_each(lambda x, b=batch, n=length: x[:b, :n], arrays)
        outputs = layer(*part)
        assert tuple(outputs.shape[:2]) == (batch, length)
        assert np.isfinite(helpers.to_numpy(outputs)).all()


@pytest.mark.skipif(BACKEND == "jax", reason="JAX has no float64 by default")
def test_float64_is_exact():
    """Softmax, logits and loss too: nothing is rounded to float32."""
    model = kt.Transformer(helpers.config(num_layers=1), dtype="float64")
    helpers.randomise(model, 1)
    inputs = helpers.padded_inputs()
    logits = model(inputs)
    losses = kt.LabelSmoothedCrossEntropy().token_losses(
        inputs["target"], logits
    )
    dtypes = {each.dtype for each in (logits, *losses)}
    assert set(map(keras.backend.standardize_dtype, dtypes)) == {"float64"}
    table = helpers.to_numpy(model.target_embedding.embeddings)
    _, states = map(helpers.to_numpy, model.hidden_states(inputs))
    assert_same(logits, states @ table.T, 1e-12)


def test_a_decoder_in_a_functional_model():
    layer, arrays = make("decoder")
    places = [keras.Input((None, x.shape[2])) for x in arrays]
    model = keras.Model(places, layer(*places, return_attention_scores=True))
    expected = layer(*arrays, return_attention_scores=True)
    found = map(tree.flatten, (model(arrays), expected))
    for one, other in zip(*found, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("name", ON_IDS)
def test_ids_of_any_dtype_but_not_outside_the_vocabulary(name):
    layer, arrays = make(name)
    expected = layer(*arrays)
    for dtype in ("int64", "uint8", "float32"):
        given = of_each(lambda x, to=dtype: x.astype(to), arrays)
        assert_same(layer(*given), expected)
    for wrong in (-1, 11, 2**31 - 1):
        given = of_each(
            lambda x, wrong=wrong: np.where(
                np.arange(x.shape[1]) == 1, wrong, x
            ),
            arrays,
        )
        with pytest.raises(ValueError, match=f"{wrong}"):
            layer(*given)


def test_ids_as_floats_are_not_rounded():
    layer = kt.SharedEmbedding(3000, 4, mask_zero=True, dtype="mixed_bfloat16")
    ids = np.array([[2049, 0, 2999]])
    assert_same(layer(ids.astype("float32")), layer(ids))
    places = keras.Input((3,))
    assert_same(keras.Model(places, layer(places))(ids), layer(ids))


@TENSORFLOW
def test_negative_ids_in_a_graph_are_no_ids_from_the_end():
    import tensorflow as tf

    layer, _ = make("embedding")
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.function(layer, autograph=False)(tf.constant([[4, -1]]))


@pytest.mark.parametrize("name", ["self-attention", "cross-attention"])
def test_masks_in_any_form_that_fits(name):
    layer, arrays = make(name)
    keys = arrays[-1].shape[1]
    mask = np.ones((2, keys), bool)
    mask[0, keys - 1] = False
    expected = layer(*arrays, attention_mask=mask)
    whole = np.repeat(mask[:, None], 4, axis=1)
    for each in (mask.astype("int32"), mask.tolist(), whole, whole[:, None]):
        assert_same(layer(*arrays, attention_mask=each), expected)
    for shape in ((keys,), (3, keys), (2, 4, 6), (1, 1, 1, 1, keys)):
        with pytest.raises(ValueError, match="mask must be"):
            layer(
                *[each[:1] for each in arrays],
                attention_mask=np.ones(shape, bool),
            )


def symbolic(width):
    return keras.KerasTensor((2, 3, width))


def called_twice():
    layer, (states,) = make("self-attention")
    layer(states)
    layer(states, STATES)


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda: kt.SinusoidalPositionEncoding()(symbolic(7)), "width"),
        (lambda: kt.SinusoidalPositionEncoding("marian")(symbolic(2)), "width"),
        (lambda: kt.EncoderLayer(5, 2, 3)(symbolic(None)), "width"),
        (lambda: kt.MultiHeadAttention(2, 3, 5)(symbolic(None)), "width"),
        (lambda: kt.ResidualConnection()(STATES, STATES[..., :5]), "12"),
        (called_twice, "built for self-attention"),
        (
            lambda: kt.MultiHeadAttention(2, 3)(
                STATES, STATES, use_causal_mask=True
            ),
            "self-attention only",
        ),
        (lambda: kt.SinusoidalPositionEncoding()(STATES, [[-1]]), "-1"),
        (lambda: kt.SinusoidalPositionEncoding()(STATES, [[16_384]]), "16384"),
        (lambda: kt.LearnedPositionEmbedding(9)(STATES, [[9]]), "9"),
        (lambda: kt.LearnedPositionEmbedding(3)(STATES), "max_positions"),
        (lambda: kt.MultiHeadAttention(0, 3), "num_heads"),
        (lambda: kt.MultiHeadAttention(2.5, 3), "num_heads"),
        (lambda: kt.SharedEmbedding(4, 0), "d_model"),
        (lambda: kt.LearnedPositionEmbedding(0), "max_positions"),
    ],
)
def test_invalid_arguments_and_inputs(call, match):
    with pytest.raises(ValueError, match=match):
        call()
