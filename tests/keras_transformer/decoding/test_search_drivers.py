"""Searches in buckets and with a shrinking batch, against one loop."""

import functools
import types

import keras
import pytest
from hypothesis import given, settings
from keras import ops, tree

import keras_transformer as kt
from keras_transformer.decoding import translate
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding import beam_tables as bt

CAPACITY = bt.CAPACITY
TENSORFLOW = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="of TensorFlow's graphs"
)
FREE, GRAMMAR = bt.config(3), bt.config(3, grammar=bt.AUTOMATON)


class TableDecoder:
    """A decoder by tables, whose state has a cache of the right capacity."""

    def __init__(self, tables):
        self.tables = tables

    def start(self, source, capacity, memory):
        numbers = ops.zeros((ops.shape(self.tables)[0], 3), dtype="int32")
        cache = ops.zeros((ops.shape(self.tables)[0], capacity))
        return self.tables, numbers, cache

    def step(self, tokens, parents, index, state):
        tables, numbers, cache = state
        logits, numbers = bt.step_of(tables)(tokens, parents, index, numbers)
        return logits, (tables, numbers, cache)

    def extend_cache(self, state, capacity):
        tables, numbers, cache = state
        shape = ops.shape(cache)[0], capacity - ops.shape(cache)[1]
        cache = ops.concatenate([cache, ops.zeros(shape)], axis=1)
        return tables, numbers, cache


def search(tables, constraints, capacity, config, **options):
    sizes = types.SimpleNamespace(vocabulary_size=bt.VOCABULARY)
    model = types.SimpleNamespace(config=sizes)
    return kt.translate_ids(
        *(model, None, capacity, constraints, config),
        decoder=TableDecoder(tables),
        **options,
    )[:2]


@functools.cache
def bucketed(buckets, config):
    def run(tables, constraints):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(translate, "_BUCKETS", buckets)
            return search(tables, constraints, CAPACITY, config)

    return helpers.jitted(run)


@functools.cache
def shrinking(segment, config):
    import tensorflow as tf

    def traced(tables, constraints, capacity):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(translate, "_SEGMENT_STEPS", segment)
            return search(
                tables, constraints, capacity, config, shrink_batch=True
            )

    graph = tf.function(traced, autograph=False, reduce_retracing=True)

    def run(tables, constraints, capacity=CAPACITY):
        # The number of sentences must be open.
        specs = tree.map_structure(
            lambda each: tf.TensorSpec([None, *each.shape[1:]], each.dtype),
            (tables, constraints),
        )
        specs = (*specs, tf.TensorSpec([], tf.int32))
        return graph.get_concrete_function(*specs)(
            *tree.flatten((tables, constraints)), tf.constant(capacity)
        )

    return run


@pytest.mark.parametrize(
    "find",
    [
        functools.partial(bucketed, (2, 3)),
        pytest.param(functools.partial(shrinking, 1), marks=TENSORFLOW),
        pytest.param(functools.partial(shrinking, 3), marks=TENSORFLOW),
    ],
    ids=["buckets", "segments of 1", "segments of 3"],
)
@pytest.mark.parametrize("config", [FREE, GRAMMAR], ids=["free", "grammar"])
@settings(max_examples=2)
@given(seed=bt.SEEDS)
def test_finds_what_one_loop_finds(find, config, seed):
    tables, constraints = bt.generate(seed, config.grammar)
    expected = bt.search(tables, constraints, CAPACITY, config)
    run = find(config)
    found = run(ops.convert_to_tensor(tables), bt.as_tensors(constraints))
    bt.assert_same(found, expected)


@pytest.mark.parametrize(
    "finished, is_continued",
    # The rest of the segment would be computed in vain, or nearly not.
    [([False] * 3, True), ([True, True, False], False), ([True] * 3, False)],
)
def test_sentences_are_removed_when_it_pays(finished, is_continued):
    search = translate.start_search(FREE, kt.Constraints([6] * 3), 6, ())
    search = search._replace(stopped=ops.convert_to_tensor(finished))
    assert bool(translate._continue_segment(search, 6)) == is_continued
