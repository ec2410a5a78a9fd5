"""LoRA of attention, beside matrices that have the product added."""

import numpy as np
import pytest

import keras_transformer as kt
from tests.keras_transformer import helpers

SIZES = {"d_model": 6, "num_heads": 2, "d_k": 3, "d_v": 5}
INPUTS = np.random.default_rng(1).normal(size=(2, 4, 6)).astype("float32")
MEMORY = np.random.default_rng(2).normal(size=(2, 3, 7)).astype("float32")
# The rows and columns of A and B that belong to each matrix.
PARTS = {
    "self": ((INPUTS,), {"query_key_value": (slice(0, 6), slice(0, 22))}),
    "cross": (
        (INPUTS, MEMORY),
        {
            "query": (slice(0, 6), slice(0, 6)),
            "key_value": (slice(6, 13), slice(6, 22)),
        },
    ),
}


def made(inputs, seed=0):
    layer = kt.MultiHeadAttention(**SIZES)
    layer.build(*[each.shape for each in inputs])
    helpers.randomise(layer, seed)
    return layer


def answers(layer, inputs):
    """What is computed in one pass, and by the parts that decoding calls."""
    found = [layer(*inputs)]
    if len(inputs) == 1:
        found += layer.project(INPUTS)
    else:
        found += [layer.project_query(INPUTS), *layer.project_memory(MEMORY)]
    return [helpers.to_numpy(each) for each in found]


def assert_close(ones, others):
    for one, other in zip(ones, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("kind", PARTS)
def test_it_is_a_product_added_to_each_matrix(kind, tmp_path):
    inputs, parts = PARTS[kind]
    layer, plain = made(inputs), made(inputs)
    before = answers(layer, inputs)
    layer.enable_lora(2, lora_alpha=6)
    assert_close(answers(layer, inputs), before)
    names = [each.name for each in layer.trainable_variables]
    assert names == ["lora_kernel_a", "lora_kernel_b"]
    generator = np.random.default_rng(3)
    a, b = (
        generator.normal(size=each.shape) for each in layer.trainable_variables
    )
    layer.lora_kernel_a.assign(a.astype("float32"))
    layer.lora_kernel_b.assign(b.astype("float32"))
    for name, (rows, columns) in parts.items():
        kernel = getattr(plain, f"{name}_kernel")
        wanted = helpers.to_numpy(kernel).astype("float64")
        wanted += 6 / 2 * a[rows] @ b[:, columns]
        kernel.assign(wanted.astype("float32"))
    wanted = answers(plain, inputs)
    assert np.abs(wanted[0] - before[0]).max() > 0.1
    assert_close(answers(layer, inputs), wanted)

    # Saved, it is the layer that was never adapted.
    store = {}
    layer.save_own_variables(store)
    other = made(inputs, seed=4)
    other.load_own_variables(store)
    assert_close(answers(other, inputs), wanted)
    layer.load_own_variables(store)
    assert_close(answers(layer, inputs), wanted)


def test_what_cannot_be_is_refused():
    layer = kt.MultiHeadAttention(**SIZES, name="attention")
    with pytest.raises(ValueError, match="attention is not built yet"):
        layer.enable_lora(2)
    layer.build(INPUTS.shape)
    for rank in (0, 2.0, None):
        with pytest.raises(ValueError, match="must be a whole number from 1"):
            layer.enable_lora(rank)
    assert len(layer.trainable_variables) == len(layer.weights)
    layer.enable_lora(2)
    with pytest.raises(ValueError, match="attention is adapted already"):
        layer.enable_lora(2)
    assert not helpers.to_numpy(layer.lora_kernel_b).any()
