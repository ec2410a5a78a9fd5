"""Quantized models: exact products, and answers like those of float32."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

import keras_transformer as kt
from export.common.errors import InputError
from export.loading import load_translator
from export.model_directory import ModelDirectory
from export.serving.export_directory import read_description
from export.translators import int8
from tests import made_up_text, processes
from tests.export import commands, tiny
from tests.export.translators.made_up_shortlist import made_up_shortlist

TEXTS = made_up_text.sentences()[:24]

needs_exact_products = pytest.mark.skipif(
    not int8.is_supported(),
    reason="the processor cannot multiply int8 exactly",
)


def round_rows(matrix):
    """Returns integers [n, m] up to 127, and the ranges [n, 1]."""
    ranges = np.maximum(np.abs(matrix).max(axis=1, keepdims=True), 1e-30)
    ranges = ranges.astype("float32")
    scaled = matrix.astype("float32") * (np.float32(127) / ranges)
    return np.rint(scaled).astype("int64"), ranges.astype("float64")


def reference(rows, matrix):
    """Returns the product of rounded values in 64 bits, as float64."""
    values, row_ranges = round_rows(rows)
    columns, column_ranges = round_rows(matrix.T)
    return values @ columns.T * (row_ranges / 127) * (column_ranges.T / 127)


def multiply(rows, matrix):
    product = tf.function(int8.Int8Matrix(matrix).multiply)
    return product(tf.constant(rows, tf.float32)).numpy()


def arrays(rows, columns):
    numbers = st.sampled_from([-127, 127, 0, 1, -1, 126, 1e4, -1e-6, 0.3, 64])
    return st_numpy.arrays("float32", (rows, columns), elements=numbers)


@needs_exact_products
@settings(max_examples=30, deadline=None)
@given(st.data(), st.sampled_from([1, 2, 63, 64, 513]), st.integers(1, 40))
def test_products_are_those_of_integers(data, width, columns):
    rows = data.draw(arrays(data.draw(st.integers(0, 9)), width))
    matrix = data.draw(arrays(width, columns))
    np.testing.assert_allclose(
        multiply(rows, matrix), reference(rows, matrix), rtol=1e-5
    )


@needs_exact_products
def test_extreme_sums_and_outliers_are_exact():
    generator = np.random.default_rng(1)
    matrix = generator.normal(size=(2048, 96)).astype("float32")
    matrix[:, :2] = 1.0, -1.0
    matrix[:, 2] = 0.0
    rows = generator.normal(size=(6, 2048)).astype("float32")
    rows[1], rows[2], rows[3] = 1.0, -1.0, 0.0
    rows[4, 7] = 1e30
    rows[5, 9] = 1e-38
    found, expected = multiply(rows, matrix), reference(rows, matrix)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found[1, 0] == pytest.approx(2048) == -found[2, 0]
    # The error of ordinary rows is that of rounding to 255 values.
    exact = rows[0].astype("float64") @ matrix[:, 3:]
    error = np.std(found[0, 3:] - exact) / np.std(exact)
    assert 0.003 < error < 0.03


@needs_exact_products
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_give_nan_and_no_other_does(bad):
    generator = np.random.default_rng(2)
    matrix = generator.normal(size=(32, 16))
    rows = generator.normal(size=(3, 32))
    expected = multiply(rows, matrix)
    rows[1, 5] = bad
    found = multiply(rows, matrix)
    assert np.isnan(found[1]).all()
    assert np.array_equal(found[[0, 2]], expected[[0, 2]])
    matrix[3, 4] = bad
    with pytest.raises(InputError, match="NaN or infinity"):
        int8.Int8Matrix(matrix)


@needs_exact_products
def test_a_row_does_not_depend_on_its_batch():
    generator = np.random.default_rng(3)
    product = tf.function(
        int8.Int8Matrix(generator.normal(size=(64, 80))).multiply,
        input_signature=[tf.TensorSpec([None, None, 64])],
    )
    rows = generator.normal(size=(40, 3, 64)).astype("float32")
    together = product(rows).numpy()
    for index in range(len(rows)):
        alone = product(rows[index : index + 1]).numpy()
        assert np.array_equal(alone[0], together[index])


def load(path, **search):
    return load_translator(path, beam_size=3, **search)


@needs_exact_products
@pytest.mark.parametrize(
    "kind",
    [
        "all",
        pytest.param("target_pieces", marks=pytest.mark.slow),
        pytest.param("shortlist", marks=pytest.mark.slow),
    ],
)
def test_scores_are_within_two_percent(model_path, tmp_path, kind):
    search = {}
    if kind == "target_pieces":
        path = tmp_path / "target"
        path.write_text("\n".join(TEXTS[:9]), encoding="utf-8")
        search["target_pieces"] = [path]
    elif kind == "shortlist":
        tokenizer = ModelDirectory(model_path).load_tokenizer()
        path = tmp_path / "lex"
        path.write_text(made_up_shortlist(tokenizer), encoding="utf-8")
        search |= {"shortlist": path, "shortlist_size": 60}
    expected = load(model_path, **search).translate(TEXTS)
    found = load(model_path, quantization="int8", **search).translate(TEXTS)
    pairs = [
        (one.score, other.score)
        for one, other in zip(found, expected, strict=True)
        if one.text == other.text
    ]
    # With random weights, other translations have nearly the same score.
    assert len(pairs) >= len(TEXTS) // 3
    one, other = np.transpose(pairs)
    assert 0 < np.sqrt(np.mean((one / other - 1) ** 2)) < 0.02


@needs_exact_products
def test_ensembles_and_shared_embeddings_are_quantized():
    models = [
        tiny.model(seed, num_layers=2, share_embeddings="all", output_bias=True)
        for seed in (1, 2)
    ]
    sizes = [model.count_params() for model in models]
    source = np.array([[20, 30, 3], [5, 3, 0]], "int32")
    target = np.array([[9, 8, 3], [7, 3, 0]], "int32")
    expected = kt.score_ids(kt.Ensemble(models), source, target)
    ensemble = kt.Ensemble(models)
    variables = int8.quantize_model(ensemble)
    matrices = [each for each in variables if each.dtype == "int8"]
    # An embedding, and 4 matrices in each of 2 encoder and 6 in 2 decoder
    # layers.
    assert len(matrices) == 2 * (1 + 2 * 4 + 2 * 7)
    for model, size in zip(models, sizes):
        assert model.output_embedding is model.source_embedding
        quantized = sum(np.prod(each.shape) for each in matrices) // 2
        assert model.count_params() + quantized == size
    found = tf.function(lambda: kt.score_ids(ensemble, source, target))()
    np.testing.assert_allclose(found, expected, rtol=0.02)


@pytest.mark.parametrize(
    "flags", [["--quantization=int4"], ["--quantization=int8", "--compiled"]]
)
def test_wrong_flags_are_one_line(model_path, flags):
    code, lines, err = commands.run("export.translate", model_path, [], *flags)
    assert (code, lines) == (2 if "int8" in flags[0] else 1, [])
    assert "quantization" in err[-1] or "int4" in "".join(err)


@pytest.mark.slow
@needs_exact_products
def test_an_export_passes_its_check_and_stores_each_weight_once(
    model_path, tmp_path
):
    code, _, err = commands.run(
        *("export.saved_model", None, []),
        f"--model_dir={model_path}",
        f"--export_dir={tmp_path / 'e'}",
        "--quantization=int8",
    )
    assert code == 0, err
    version = tmp_path / "e" / "1"
    assert read_description(version)["limits"]["quantization"] == "int8"
    variables = str(version / "variables/variables")
    arrays = [
        tf.train.load_variable(variables, name)
        for name, _ in tf.train.list_variables(variables)
        if name != "_CHECKPOINTABLE_OBJECT_GRAPH"
    ]
    model = ModelDirectory(model_path).load_model()
    matrices = [each for each in model.weights if len(each.shape) == 2]
    size = sum(each.size for each in arrays if each.dtype == np.int8)
    assert size == sum(np.prod(each.shape) for each in matrices)
    assert not any(each.ndim > 1 for each in arrays if each.dtype != np.int8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")
        done = processes.run(
            {"module": "export.check"}, [version], imported=False
        )
    assert done.code == 2
    assert "VNNI" in done.err.splitlines()[-1]


@pytest.mark.slow
def test_other_processors_are_refused(model_path, monkeypatch):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    done = processes.run(
        {"module": "export.translate"},
        [f"--model={model_path}", "--quantization=int8"],
        imported=False,
    )
    assert done.code == 2
    assert "VNNI" in done.err.splitlines()[-1]


@needs_exact_products
@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`")
def test_a_model_quantized_by_keras_is_refused():
    model = tiny.model()
    model.quantize("int8")
    with pytest.raises(InputError, match="quantized by Keras"):
        int8.quantize_model(model)
