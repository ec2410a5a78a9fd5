"""Keras' own test of a layer, run over every public one."""

import keras
import pytest
from keras.src import testing

import keras_transformer as kt
from tests.keras_transformer.layers.layer_samples import IDS, LAYERS, make

# Of the harness' own training step, in which a sinusoid has no weights and
# an output bias no gradient.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.shuffle=True. was passed"),
    pytest.mark.filterwarnings("ignore:The model does not have any trainable"),
    pytest.mark.filterwarnings("ignore:Gradients do not exist"),
]
SECOND = {"cross-attention": "value_shape", "residual": "outputs_shape"}


def test_every_public_layer_has_a_sample():
    public = {
        each
        for each in map(vars(kt).get, kt.__all__)
        if isinstance(each, type)
        and issubclass(each, keras.layers.Layer)
        and not issubclass(each, keras.Model)
    }
    assert public == {type(make(name)[0]) for name in LAYERS}


@pytest.mark.parametrize("name", LAYERS)
def test_keras_own_checks(name):
    layer, inputs = make(name)
    config = layer.get_config()
    for of_every_layer in ("name", "trainable", "dtype"):
        del config[of_every_layer]
    shape = inputs[0].shape
    if len(inputs) == 2:
        first = "query_shape" if "attention" in name else "inputs_shape"
        second = SECOND.get(name, "memory_shape")
        shape = {first: inputs[0].shape, second: inputs[1].shape}
    # The class has the checks; unittest's own are its methods.
    testing.TestCase().run_layer_test(
        type(layer),
        config,
        input_shape=shape,
        **({"input_dtype": "int32"} if inputs[0] is IDS else {}),
        expected_output_shape=(*inputs[0].shape[:2], 12),
        supports_masking=layer.supports_masking,
        # Its training step gives a layer one input alone.
        run_training_check=len(inputs) == 1,
    )
