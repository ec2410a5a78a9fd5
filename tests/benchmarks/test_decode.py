"""The decoding benchmark, run as a user runs it."""

import gzip
import importlib.util
import json
import math
import pickle

import keras
import numpy as np
import pytest

import keras_transformer as kt
from benchmarks.decoding.job import DecodeJob, Pieces, read_sentences
from benchmarks.decoding.report import DecodeResult, table
from benchmarks.decoding.systems import choose_decoders, with_beam
from benchmarks.harness.matrix_products import (
    encoder_shapes,
    live_rows,
    step_bytes,
    step_shapes,
)
from export.errors import InputError
from export.model_directory import ModelDirectory
from export.tokenizers.tokenizer import Tokenizer
from keras_transformer.config import BEGIN_ID
from tests import made_up_text
from tests.benchmarks.decoding import POST, run, run_alone, write
from tests.export import tiny

PEERS = ("ctranslate2", "ctranslate2-side-by-side", "transformers")


@pytest.fixture(name="trained_dir", scope="module")
def fixture_trained_dir(tmp_path_factory):
    """Trained a little to copy: random weights' outputs never end."""
    keras.utils.set_random_seed(1)
    made = kt.Transformer(tiny.config(**POST))
    tokenizer = Tokenizer(made_up_text.vocabulary())
    labels = np.zeros((2000, 32), "int32")
    for row, ids in zip(
        labels, tokenizer.encode(made_up_text.sentences(2000, seed=5))
    ):
        row[: len(ids)] = ids
    target = np.roll(labels, 1, axis=1)
    target[:, 0] = BEGIN_ID
    target[labels == 0] = 0
    made.compile(
        optimizer=keras.optimizers.Adam(5e-3),
        loss=kt.LabelSmoothedCrossEntropy(0.1),
    )
    inputs = {"source": labels, "target": target}
    made.fit(inputs, labels, batch_size=100, epochs=10, verbose=0)
    path = tmp_path_factory.mktemp("trained")
    write(path, made)
    return path


@pytest.fixture(name="model_dir", scope="module")
def fixture_model_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    write(path, tiny.model(**POST))
    return path


@pytest.fixture(name="text", scope="module")
def fixture_text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.en"
    path.write_text("\n\n".join(made_up_text.sentences()), encoding="utf-8")
    return path


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table_of(model_dir, text, output, systems, *more):
    done = run_alone(
        "decode",
        f"--model_dir={model_dir}",
        f"--text={text}",
        "--sentences=8",
        "--batches=1,4",
        "--beams=3",
        "--rounds=2",
        "--tries=1",
        "--device=cpu",
        f"--systems={systems}",
        f"--output={output}",
        *more,
    )
    assert done.code == 0, done.err
    page = output.read_text(encoding="utf-8")
    assert page == done.out
    header, _, *rows = [
        cells(line) for line in page.splitlines() if line.startswith("|")
    ]
    return [dict(zip(header, row, strict=True)) for row in rows], page


@pytest.mark.slow
def test_the_table_of_our_two_forms_and_the_products(tmp_path, model_dir, text):
    systems = (
        *("ours", "ours-served", "products", "ours-side-by-side"),
        "ours-compiled",
    )
    rows, page = table_of(model_dir, text, tmp_path / "t.md", ",".join(systems))
    assert [(row["batch"], row["system"]) for row in rows] == [
        (size, name) for size in ("1", "4") for name in systems
    ]
    for ours, served, products, side_by_side, compiled in (rows[:5], rows[5:]):
        assert compiled["same text"] == "100.0%"
        assert float(compiled["score differs by"]) < 1e-4
        assert side_by_side["same text"] == "100.0%"
        assert side_by_side["score differs by"] == "0.0e+00"
        assert side_by_side["p50 ms"] == "-"
        assert served["same text"] == "100.0%"
        assert float(served["score differs by"]) < 1e-4
        assert ours["ours / it (quartiles)"] == "-"
        assert served["own tokens/s"] != "-"
        assert products["same text"] == "-"
        assert float(ours["peak GiB"]) > 0.05
        assert float(ours["floor / it"].split()[0]) > 0
    assert float(rows[0]["p99 ms"]) >= float(rows[0]["p50 ms"]) > 0
    assert rows[5]["p50 ms"] == "-"
    assert f"--model_dir={model_dir}" in page


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_translates_with_the_same_weights(
    tmp_path, trained_dir, text, peer
):
    package = peer.partition("-")[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed (requirements-bench.txt)")
    rows, _ = table_of(trained_dir, text, tmp_path / "t.md", f"ours,{peer}")
    for row in rows[1::2]:
        # Searches that stop by other rules may differ now and then.
        assert float(row["same text"].strip("%")) >= 75
        assert float(row["score differs by"]) < 1e-4


@pytest.mark.slow
def test_the_search_on_jax(tmp_path, model_dir, text, monkeypatch):
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed (requirements-jax.txt)")
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    rows, page = table_of(model_dir, text, tmp_path / "t.md", "ours,products")
    assert len(rows) == 4
    assert "KERAS_BACKEND=jax" in page


@pytest.mark.parametrize("decoder_layers", [0, 1])
def test_the_products_are_those_of_every_matrix(decoder_layers):
    fields = kt.TransformerConfig.preset(
        "tiny",
        d_k=16,
        d_v=8,
        num_layers=3,
        num_decoder_layers=decoder_layers,
    )
    model = kt.Transformer(fields)
    config = json.loads(fields.to_json())
    shapes = encoder_shapes(config) + step_shapes(config)
    expected = [
        tuple(weight.shape)
        for weight in model.trainable_variables
        if len(weight.shape) == 2 and weight.name != "embeddings"
    ]
    embeddings = (fields.d_model, fields.vocabulary_size)
    assert sorted(shapes) == sorted([*expected, embeddings])


def test_bytes_of_a_step_of_the_base_model():
    config = json.loads(kt.TransformerConfig.preset("base").to_json())
    # Section 3: N = 6, d_model 512, d_ff 2048, V 37,000: four projections of
    # self-attention, two of cross-attention's, two of the feed-forward.
    weights = 6 * (6 * 512**2 + 2 * 512 * 2048) + 512 * 37_000
    assert step_bytes(config, "float32") == 4 * weights
    assert step_bytes(config, "bfloat16") == 2 * weights


@pytest.mark.parametrize("lengths", [[5], [3, 3], [4, 1, 9, 4, 2]])
def test_rows_are_those_of_unfinished_sentences(lengths):
    steps = [
        rows for rows, count in live_rows(lengths, 4) for _ in range(count)
    ]
    assert steps == [
        4 * sum(length > step for length in lengths)
        for step in range(max(lengths))
    ]


def test_sentences_come_from_all_over_the_text(tmp_path, model_dir):
    pieces = Pieces(model_dir)
    lines = [f"ba {'bi ' * (number % 7)}." for number in range(30)]
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress("\n \n".join(lines).encode()))
    sentences, lengths = read_sentences(path, 10, pieces)
    assert sorted(sentences) == sorted(lines[::3])
    assert lengths == sorted(lengths) == pieces.lengths(sentences)
    ids = pieces.ids(sentences)
    assert all(row[-1] == 3 for row in ids)
    tokenizer = ModelDirectory(model_dir).load_tokenizer()
    expected = [row.tolist() for row in tokenizer.encode(sentences)]
    assert ids == expected
    assert pieces.text([row[:-1] for row in ids]) == sentences
    with pytest.raises(InputError, match="30 sentences; 31 are asked"):
        read_sentences(path, 31, pieces)
    with pytest.raises(InputError, match="Cannot use"):
        read_sentences(tmp_path / "none", 1, pieces)


def test_batches_are_all_sentences_in_order():
    job = DecodeJob(
        *("", "", {}, "float32", "cpu", 1),
        sentences=list("abcdef"),
        source_lengths=[1, 2, 3, 4, 5, 6],
        target_lengths=[6, 5, 4, 3, 2, 1],
    )
    batches = job.batches(4)
    assert [batch.texts for batch in batches] == [list("abcd"), list("ef")]
    assert batches[1].source_lengths == [5, 6]
    assert batches[1].target_lengths == [2, 1]
    assert pickle.loads(pickle.dumps(job)) == job


def test_another_beam_and_the_same_weights(tmp_path, model_dir):
    path = with_beam(model_dir, 7, tmp_path)
    directory = ModelDirectory(path)
    config = directory.read_config()
    assert config == tiny.config(**POST, beam_size=7)
    for one, other in zip(
        directory.load_model().get_weights(),
        ModelDirectory(model_dir).load_model().get_weights(),
    ):
        np.testing.assert_array_equal(one, other)


def result(name, size, seconds, **more):
    fields = {
        "note": "x",
        "beam": 4,
        "cpu_seconds": seconds,
        "latencies": [s / 10 for s in seconds],
        "sentences": 10,
        "tokens": 120,
        "own_tokens": 60,
        "same": 9,
        "score_error": None,
        "peak_bytes": 2**30,
    }
    return DecodeResult(name=name, size=size, seconds=seconds, **fields | more)


def test_the_table_compares_round_by_round():
    # The second round was twice as slow for all.
    results = [
        result("ours", 1, [2.0, 4.0], same=10),
        result("ctranslate2", 1, [3.0, 6.0]),
        result("products", 1, [1.0, 2.0], translates=False),
        result("products-xla", 1, [1.5, 3.0], translates=False),
        result("ours", 32, [9.0, 9.0]),
    ]
    header, _, *rows = map(cells, table(results).splitlines())
    ours, peer, products, _, large = [dict(zip(header, row)) for row in rows]
    one = "1.500 (1.500–1.500)"
    assert peer["ours / it (quartiles)"] == one
    assert ours["it / ctranslate2 (quartiles)"] == one
    assert ours["floor / it"] == "0.500 (0.500–0.500)"
    assert products["floor / it"] == products["same text"] == "-"
    assert large["it / ctranslate2 (quartiles)"] == "-"
    assert large["p50 ms"] == "-"
    assert float(ours["p50 ms"]) == pytest.approx(300)
    assert float(ours["p99 ms"]) == pytest.approx(398)
    assert peer["same text"] == "90.0%"
    rate, low, high = 120 / 3, 120 / 3.5, 120 / 2.5
    found = ours["target tokens/s (quartiles)"]
    assert found.startswith("45 (")
    assert low < 45 < high + rate
    assert math.isclose(float(peer["own tokens/s"]), 13)


def _assert_refused(done, message):
    assert done.code == 2, done.err
    assert message in done.err
    assert "Traceback" not in done.err


def test_a_wrong_flag_is_one_line(tmp_path, model_dir, text):
    for arguments, message in (
        ([f"--model_dir={model_dir}", "--text=none"], "Cannot use none"),
        (
            [f"--model_dir={model_dir}", f"--text={text}", "--sentences=9"],
            "do not fill batches of 8",
        ),
        (
            [f"--model_dir={model_dir}", f"--text={text}", "--beams=x"],
            "--beams must be",
        ),
    ):
        _assert_refused(run("decode", *arguments), message)
    arguments = [f"--model_dir={tmp_path}", f"--text={text}"]
    _assert_refused(run_alone("decode", *arguments), "no")
    with pytest.raises(InputError, match="no system 'theirs'"):
        choose_decoders("tensorflow", ["theirs"])
    with pytest.raises(InputError, match="tensorflow or jax"):
        choose_decoders("openvino", [])
    with pytest.raises(InputError, match="translates"):
        choose_decoders("tensorflow", ["products"])
