"""Graphs: traced once, and compiled for one sentence at a time."""

import concurrent.futures
import time

import numpy as np
import pytest
import tensorflow as tf

from export.translators import graph_backend
from export.translators.graph_translator import trace_once
from export.translators.translator import Translator
from tests import made_up_text
from tests.export.translators.test_translator import close

TEXTS = [*made_up_text.sentences()[:3], "", "many words " * 60]
ROWS = tf.TensorSpec([None, None], tf.float32)
SHAPES = [(1, 2), (3, 4), (5, 6)]
# Maximum number of source tokens; the long text is truncated.
LIMIT = 14


def changed(translator, **options):
    return Translator.from_model(
        translator.model, translator.tokenizer, **options
    )


def test_a_function_is_traced_once_for_all_shapes_and_threads(caplog):
    traced = []

    def double(rows, addend):
        traced.append(rows.shape.as_list())
        time.sleep(0.05)
        return {"sum": 2 * rows + addend[0]}

    # From five tracings in ten calls on TensorFlow would warn.
    for _ in range(5):
        graph = trace_once(double, ROWS, (ROWS,))
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            found = threads.map(
                graph,
                [np.ones(shape, np.float32) for shape in SHAPES],
                [(tf.ones(shape),) for shape in SHAPES],
            )
        for shape, each in zip(SHAPES, found, strict=True):
            np.testing.assert_array_equal(each["sum"], np.full(shape, 3.0))
    assert traced == [[None, None]] * 5
    assert "retracing" not in caplog.text


def test_few_lengths_are_compiled():
    padded_length = graph_backend._padded_length
    lengths = [padded_length(length, 40) for length in range(1, 41)]
    assert lengths == [16] * 16 + [32] * 16 + [40] * 8


@pytest.mark.slow
def test_the_same_translations_from_few_compilations(translator, monkeypatch):
    translator = changed(translator, max_source_tokens=LIMIT)
    expected = translator.align(TEXTS)
    assert all(each.alignment for each in expected if each.text)
    prefixes = ["do ri", "mu"]
    expected_of_prefixes = translator.align(TEXTS[:2], prefixes=prefixes)
    compiled = changed(translator, max_source_tokens=LIMIT, compiled=True)
    shapes = []

    def record(function, *signature):
        ids = [each for each in signature if each.dtype == tf.int32]
        shapes.append([each.shape.as_list() for each in ids[1:]])
        return trace_once(function, *signature)

    monkeypatch.setattr(graph_backend, "trace_once", record)
    steps = []
    found = compiled.align(TEXTS, steps.append)
    close(found, expected)
    assert [each.alignment for each in found] == [
        each.alignment for each in expected
    ]
    assert found[-1].source_truncated
    # All but the blank one, each on its own.
    assert steps == [1] * (len(TEXTS) - 1)
    assert shapes == [[[1, LIMIT]]]
    found = compiled.align(TEXTS[:2], prefixes=prefixes)
    assert shapes[1:] == [[[1, LIMIT], [1, 16]]]
    close(found, expected_of_prefixes)


@pytest.mark.slow
def test_outputs_longer_than_the_first_two_loops(translator):
    options = {"max_extra_tokens": 66, "min_length": 66, "beam_size": 1}
    one, other = (
        changed(translator, compiled=compiled, **options).translate(TEXTS[:1])
        for compiled in (True, False)
    )
    close(one, other)
    (ids,) = translator.tokenizer.encode([one[0].text])
    assert len(ids) > 65
