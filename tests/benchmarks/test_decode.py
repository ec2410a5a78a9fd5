"""The benchmark of decoding."""

import gzip
import importlib.util

import keras
import numpy as np
import pytest

import keras_transformer as kt
from benchmarks.decoding_job import (
    SentencePieces,
    read_sentences,
)
from benchmarks.peers.products import encoder_shapes, step_shapes
from export.common.errors import InputError
from export.model_directory import ModelDirectory
from export.tokenizers.tokenizer import Tokenizer
from keras_transformer.config import BEGIN_ID
from tests import made_up_text
from tests.benchmarks.commands import POST, rows_of, run, run_alone, write
from tests.export import tiny
from tests.export.translators.made_up_shortlist import made_up_shortlist

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


def table_of(model_dir, text, systems, *more):
    done = run_alone(
        "decode",
        *(f"--model_dir={model_dir}", f"--text={text}", "--sentences=8"),
        *("--batches=1,4", "--beams=3", "--rounds=2", "--device=cpu"),
        *(f"--systems={','.join(systems)}", *more),
    )
    assert done.code == 0, done.err
    return rows_of(done.out)


@pytest.mark.slow
def test_the_table_of_our_forms_and_the_products(tmp_path, model_dir, text):
    tokenizer = ModelDirectory(model_dir).load_tokenizer()
    shortlist = tmp_path / "lex"
    shortlist.write_text(made_up_shortlist(tokenizer), "utf-8")
    forms = ["ours", "ours-served", "ours-side-by-side", "ours-compiled"]
    rows = table_of(
        model_dir,
        text,
        [*forms, "products"],
        *(f"--shortlist={shortlist}", "--shortlist_size=199"),
    )
    names = [name + more for name in forms for more in ("", "+shortlist")]
    assert [(row["batch"], row["system"]) for row in rows] == [
        (size, name) for size in ("1", "4") for name in [*names, "products"]
    ]
    for row in rows:
        assert float(row["peak GiB"]) > 0.05
        if row["system"] == "products":
            continue
        assert float(row["floor / it"].split()[0]) > 0
        if "+" not in row["system"]:
            assert row["same text"] == "100.0%"
            assert float(row["score differs by"]) < 1e-4
        alone = row["batch"] == "1" and "side-by-side" not in row["system"]
        assert (row["p50 ms"] != "-") == alone


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_translates_with_the_same_weights(trained_dir, text, peer):
    package = peer.partition("-")[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed (requirements-bench.txt)")
    rows = table_of(trained_dir, text, ["ours", peer])
    for row in rows[1::2]:
        # Searches that stop by other rules may differ now and then.
        assert float(row["same text"].strip("%")) >= 75
        if package == "ctranslate2":
            assert float(row["score differs by"]) < 1e-4
    ratios = [row["it / ctranslate2 (quartiles)"] for row in rows[::2]]
    assert all((ratio != "-") == (peer == "ctranslate2") for ratio in ratios)


@pytest.mark.parametrize("decoder_layers", [0, 1])
def test_the_products_are_those_of_every_matrix(decoder_layers):
    fields = kt.TransformerConfig.preset(
        "tiny", d_k=16, d_v=8, num_layers=3, num_decoder_layers=decoder_layers
    )
    model = kt.Transformer(fields)
    shapes = encoder_shapes(fields) + step_shapes(fields)
    expected = [
        tuple(weight.shape)
        for weight in model.trainable_variables
        if len(weight.shape) == 2 and weight.name != "embeddings"
    ]
    embeddings = (fields.d_model, fields.vocabulary_size)
    assert sorted(shapes) == sorted([*expected, embeddings])


def test_sentences_come_from_all_over_the_text(tmp_path, model_dir):
    pieces = SentencePieces(model_dir)
    lines = [f"ba {'bi ' * (number % 7)}." for number in range(30)]
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress("\n \n".join(lines).encode()))
    sentences = read_sentences(path, 10, pieces)
    assert sorted(sentences) == sorted(lines[::3])
    lengths = pieces.lengths(sentences)
    assert lengths == sorted(lengths)
    for wrong, count in ((path, 31), (tmp_path / "none", 1)):
        with pytest.raises(InputError, match=wrong.name):
            read_sentences(wrong, count, pieces)


@pytest.mark.slow
def test_a_wrong_flag_is_one_line(tmp_path, model_dir, text):
    gnmt = tmp_path / "gnmt"
    write(gnmt, tiny.model(**POST | {"length_penalty": "gnmt"}))
    for model, path, more, wrong in (
        (model_dir, "none", [], "none"),
        (model_dir, text, ["--sentences=9"], "--sentences=9"),
        (model_dir, text, ["--beams=x"], "--beams"),
        (model_dir, text, ["--systems=theirs"], "theirs"),
        (model_dir, text, ["--systems=products"], "ours"),
        (tmp_path, text, [], str(tmp_path)),
        (gnmt, text, ["--sentences=8", "--batches=1"], "length_penalty"),
    ):
        done = run("decode", f"--model_dir={model}", f"--text={path}", *more)
        assert done.code == 2, done.err
        assert wrong in done.err
        assert "Traceback" not in done.err
