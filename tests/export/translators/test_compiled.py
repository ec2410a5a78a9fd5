"""Graphs: traced once, and compiled for one sentence at a time."""

import concurrent.futures
import time

import numpy as np
import pytest
import tensorflow as tf

from export.common.errors import InputError
from export.translators import graph_translator
from export.translators.graph_translator import trace_once
from export.translators.translator import Translator
from tests import made_up_text
from tests.export.translators.test_translator import close

LONG = " ".join(["many words"] * 60)
TEXTS = [*made_up_text.sentences()[:12], "", LONG]
ROWS = tf.TensorSpec([None, None], tf.float32)
SHAPES = [(1, 2), (3, 4), (5, 6)]


def changed(translator, **options):
    return Translator(translator.model, translator.tokenizer, **options)


@pytest.fixture(scope="module")
def compiled(translator):
    return changed(translator, max_source_tokens=40, compiled=True)


@pytest.fixture(scope="module")
def expected(translator):
    # Not the one that other tests use: its sources may be longer.
    return changed(translator, max_source_tokens=40)


def same(found, expected):
    for each, other in zip(found, expected, strict=True):
        close(each, other)
        assert each[0].source_truncated == other[0].source_truncated
        assert each[0].alignment == other[0].alignment


def test_a_function_is_traced_once_for_all_shapes_and_threads(caplog):
    traced = []

    def doubled(rows, addend):
        traced.append(rows.shape.as_list())
        time.sleep(0.05)
        return {"sum": 2 * rows + addend[0]}

    # From five tracings in ten calls on TensorFlow would warn.
    for _ in range(5):
        graph = trace_once(doubled, ROWS, (ROWS,))
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


def test_the_same_translations_from_few_compilations(
    compiled, expected, monkeypatch
):
    right = expected.n_best(TEXTS, 1)
    shapes = []

    def noted(function, *signature, **options):
        assert options == {"jit_compile": True}
        shapes.append(signature[0].shape.as_list())
        return trace_once(function, *signature, **options)

    monkeypatch.setattr(graph_translator, "trace_once", noted)
    steps = []
    found = compiled.n_best(TEXTS, 1, steps.append)
    same(found, right)
    assert found[-1][0].source_truncated
    # All but the blank one, each on its own.
    assert steps == [1] * (len(TEXTS) - 1)
    # 40 is the limit, to which the long one is truncated.
    assert sorted(shapes) == [[1, 16], [1, 40]]
    compiled.translate(TEXTS[3:6])
    assert len(shapes) == 2


@pytest.mark.slow
def test_n_best(compiled, expected):
    same(compiled.n_best(TEXTS[:3], 4), expected.n_best(TEXTS[:3], 4))


def test_alignments(compiled, expected):
    found = compiled.align(TEXTS[:3])
    same([[t] for t in found], [[t] for t in expected.align(TEXTS[:3])])
    assert all(t.alignment for t in found)


@pytest.mark.parametrize(
    "options",
    [
        {"beam_size": 2, "alpha": 1.0},
        pytest.param({"max_source_tokens": 12}, marks=pytest.mark.slow),
    ],
)
def test_outputs_longer_than_the_first_stage(translator, options):
    options |= {"max_extra_tokens": 40, "min_length": 35}
    both = []
    for compiled in (True, False):
        other = changed(translator, compiled=compiled, **options)
        both.append([[found] for found in other.align(TEXTS[:2])])
    same(*both)
    ids = translator.tokenizer.encode([each[0].text for each in both[0]])
    assert max(map(len, ids)) > 33


def test_too_long_outputs_are_refused(translator):
    with pytest.raises(InputError, match="max_extra_tokens=1001"):
        changed(translator, compiled=True, max_extra_tokens=1001)


CHOICE = f"{graph_translator._XLA_FLAG}=LIBRARY_FUSION_TYPE_INVALID"


@pytest.mark.parametrize(
    ("version", "before", "after"),
    [
        ("2.21.3", None, CHOICE),
        ("2.21.0", "--xla_dump_to=/d", f"--xla_dump_to=/d {CHOICE}"),
        (
            "2.21.0",
            f"{graph_translator._XLA_FLAG}=+dot",
            f"{graph_translator._XLA_FLAG}=+dot",
        ),
        ("2.22.0", None, None),
    ],
)
def test_flags_of_xla(monkeypatch, version, before, after):
    monkeypatch.setattr(graph_translator.tf, "__version__", version)
    # First of all what is there, so that it comes back.
    monkeypatch.setenv("XLA_FLAGS", before or "")
    if before is None:
        monkeypatch.delenv("XLA_FLAGS")
    graph_translator.disable_ynnpack()
    assert graph_translator.os.environ.get("XLA_FLAGS") == after
