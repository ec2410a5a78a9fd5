"""Exact counts against TensorFlow's graph and Keras' parameters."""

import collections
import math

import pytest
import tensorflow as tf

import keras_transformer as kt
from trainers.cost.flops import (
    COMPONENTS,
    flops,
    flops_by_component,
    parameters_by_component,
    step_products,
)

SMALL = {
    "vocabulary_size": 997,
    "num_layers": 2,
    "num_decoder_layers": 1,
    "d_model": 8,
    "d_ff": 12,
    "num_heads": 3,
    "d_k": 4,
    "d_v": 6,
}


def graph_of_gradient(config, rows, source, target):
    """The operations that TensorFlow makes of loss and gradient."""
    model = kt.Transformer(config)
    loss = kt.LabelSmoothedCrossEntropy()

    @tf.function(autograph=False)
    def gradient(source, target, labels):
        inputs = {"source": source, "target": target}
        with tf.GradientTape() as tape:
            value = loss(labels, model(inputs, training=True))
        found = tape.gradient(value, model.trainable_variables)
        return [tf.convert_to_tensor(each) for each in found]

    shapes = [(rows, length) for length in (source, target, target)]
    return gradient.get_concrete_function(
        *(tf.TensorSpec(shape, tf.int32) for shape in shapes)
    ).graph


def products_in(graph):
    """How often a graph makes products of which (batch, m, k, n), unordered.

    A product and the gradients of its factors have the same three lengths,
    each in another order.
    """
    found = collections.Counter()
    for operation in graph.get_operations():
        if "MatMul" not in operation.type:
            continue
        plain = operation.type == "MatMul"
        transposed = operation.get_attr("transpose_a" if plain else "adj_x")
        left = operation.inputs[0].shape
        *batch, m, n = operation.outputs[0].shape
        k = left[-2] if transposed else left[-1]
        # One of length 1 is a sum: layer normalization's gradient has some.
        if min(m, k, n) > 1:
            found[math.prod(batch), *sorted((m, k, n))] += 1
    return found


@pytest.mark.parametrize(
    ("sizes", "window"), [((4, 11, 7), 0), ((2, 150, 141), 3)]
)
def test_products_are_those_of_tensorflows_graph(sizes, window):
    config = kt.TransformerConfig(**SMALL, attention_window=window)
    products = step_products(config, *sizes)
    expected = collections.Counter()
    for each in products:
        lengths = sorted((each.m, each.k, each.n))
        expected[each.batch, *lengths] += 3 * each.count
    found = products_in(graph_of_gradient(config, *sizes))
    assert found == expected
    assert flops(products) == sum(
        2 * math.prod(product) * count for product, count in found.items()
    )


def test_parameters_are_those_of_the_model():
    for changes in (
        {},
        {"share_embeddings": "target-softmax", "attention_bias": False},
        {"share_embeddings": "none", "source_vocabulary_size": 17},
        {"output_bias": True, "sinusoid_rates": "marian"},
        {"positions": "learned", "max_positions": 7, "norm": "pre"},
    ):
        config = kt.TransformerConfig(**SMALL | changes)
        counted = sum(parameters_by_component(config).values())
        assert counted == kt.Transformer(config).count_params()
    # Base with the authors' vocabulary.
    config = kt.TransformerConfig.preset("base", vocabulary_size=40_960)
    assert sum(parameters_by_component(config).values()) == 65_110_016


def test_parts_sum_to_all_products():
    config = kt.TransformerConfig(**SMALL)
    products = step_products(config, 4, 11, 7)
    parts = flops_by_component(products)
    assert tuple(parts) == COMPONENTS
    assert sum(parts.values()) == flops(products)
    # Section 3.3: two matrices of 8 x 12 in each layer; 6 FLOPs a weight.
    positions = 2 * 4 * 11 + 1 * 4 * 7
    assert parts["feed-forward"] == 6 * 2 * 8 * 12 * positions
    fewer = step_products(config, 4, 11, 7, logit_positions=20)
    assert flops(products) - flops(fewer) == 6 * 8 * 997 * 8
