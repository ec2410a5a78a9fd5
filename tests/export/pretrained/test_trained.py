"""A model that Marian itself has trained and aligned; all of its options."""

import functools
import json
import tarfile

import numpy as np
import pytest
import yaml

import keras_transformer as kt
from export.common.errors import InputError
from export.pretrained import marian_npz_reader
from export.pretrained.config_files import (
    IGNORED,
    MARIAN_DECODER_FIELDS,
    MARIAN_MODEL_FIELDS,
)
from export.pretrained.marian_npz_reader import read_marian_npz
from export.tokenizers.python_tokenizers import load_python_tokenizers
from export.translators.batches import pad_ids
from keras_transformer.config import END_ID
from tests.export import commands
from tests.export.pretrained.conftest import DATA

ODD = ["7", "0.5", "odd", ["5"], [["5", "6"]], {"odd": "1"}]
LAYER = "transformer-guided-alignment-layer"
MODEL_OPTIONS = "special:model.yml"


@pytest.fixture(name="folder")
def fixture_folder(tmp_path):
    with tarfile.open(DATA / "trained.tar.xz") as archive:
        archive.extractall(tmp_path / "marian", filter="data")
    return tmp_path / "marian"


def change_options(folder, **changes):
    arrays = dict(np.load(folder / "model.npz"))
    options = yaml.safe_load(arrays[MODEL_OPTIONS].tobytes().rstrip(b"\0"))
    text = yaml.dump(options | changes).encode()
    arrays[MODEL_OPTIONS] = np.frombuffer(text, np.int8)
    np.savez(folder / "model.npz", **arrays)


def test_links_and_probabilities_are_those_of_marian(folder, monkeypatch):
    answers = json.loads((folder / "answers.json").read_text("utf-8"))
    model, vocabulary, _, warnings = read_marian_npz(folder)
    assert warnings == []
    source, target = load_python_tokenizers(vocabulary)
    ids = {target.id_to_token(i): i for i in range(target.vocabulary_size)}
    outputs = [[*map(ids.get, each["pieces"]), END_ID] for each in answers]
    given = pad_ids([source.ids(each["text"]) for each in answers])
    given = given, pad_ids(outputs)
    expected = [each["log_probability"] for each in answers]
    np.testing.assert_allclose(
        kt.score_ids(model, *given), expected, rtol=0, atol=4e-5
    )
    scores = kt.attention_scores(model, *given)["cross"]
    monkeypatch.setattr(
        marian_npz_reader, "load_transformer", lambda config, *others: config
    )
    monkeypatch.setattr(marian_npz_reader, "set_embeddings", lambda *_: None)
    for layer in ("last", "1", "2"):
        change_options(folder, **{LAYER: layer})
        # The configuration takes the place of a second model.
        config = read_marian_npz(folder).model
        number, heads = config.alignment_attention
        if layer == "last":
            assert config.alignment_attention == (3, 1)
            alignments = model.alignment(scores).numpy()
        else:
            alignments = scores[number - 1].numpy()[:, :heads].mean(axis=1)
        for answer, output, rows in zip(answers, outputs, alignments):
            chosen = enumerate(rows[: len(output)].argmax(axis=1))
            links = {f"{source}-{token}" for token, source in chosen}
            assert links == {*answer["links"][layer].split()}


def test_a_flag_sets_the_layer_and_the_heads(folder, tmp_path):
    """As for a directory of Hugging Face's, which does not have them."""
    flags = [f"--npz={folder}", f"--model_dir={tmp_path / 'imported'}"]
    run = commands.output_and_error
    command = "export.import_marian"
    error = run(command, *flags, "--alignment_layer=4")[1]
    assert "--alignment_layer" in error and "1 to 3" in error
    assert not (tmp_path / "imported").exists()
    flags += ["--alignment_layer=2", "--alignment_heads=0"]
    assert run(command, *flags)[1] is None
    config = json.loads((tmp_path / "imported" / "config.json").read_text())
    assert (config["alignment_layer"], config["alignment_heads"]) == (2, 0)


def test_no_option_of_marian_is_ignored(folder, monkeypatch):
    """Others than those that the tables call so; decoder.yml has them all."""
    parse_yaml = functools.cache(marian_npz_reader.parse_yaml)
    changes, biases = {}, []
    # The configuration takes the place of a model, which takes time to build.
    for name, replacement in {
        "WeightsFile": functools.cache(marian_npz_reader.WeightsFile),
        "parse_yaml": lambda content, name: (
            parse_yaml(content, name)
            | changes.get(str(name).replace("/", " ").split()[-1], {})
        ),
        "load_transformer": lambda config, *others: config,
        "set_embeddings": lambda model, embeddings, bias, *others: (
            biases.append(bias.tolist())
        ),
    }.items():
        monkeypatch.setattr(marian_npz_reader, name, replacement)

    def read(file, **changed):
        changes.clear()
        changes[file] = changed
        try:
            return *read_marian_npz(folder), biases[-1]
        except InputError as error:
            return str(error)

    model, decoder = MODEL_OPTIONS, "decoder.yml"
    stored = np.load(folder / "model.npz")[model].tobytes().rstrip(b"\0")
    stored = parse_yaml(stored, model)
    # Options that a model has not, of other versions of Marian.
    others = {n: v for n, v in MARIAN_MODEL_FIELDS.items() if n not in stored}
    dumped = parse_yaml((folder / decoder).read_bytes(), decoder)
    base = read(decoder)
    for file, table, names in (
        (model, MARIAN_MODEL_FIELDS, stored),
        (decoder, MARIAN_DECODER_FIELDS | others, dumped),
    ):
        assert names.keys() <= table.keys()
        ignored = {name for name in table if table[name] is IGNORED}
        for value in ODD[::3]:
            assert read(file, **dict.fromkeys(ignored, value)) == base
        for name in [*table.keys() - ignored, "made-up"]:
            switched = {"true": ["false"], "false": ["true"]}
            for value in ODD + switched.get(str(names.get(name, "false")), []):
                result = read(file, **{name: value})
                assert result != base, (file, name, value)
                if isinstance(result, str):
                    is_named = name in result and file in result
                    assert is_named or "no array" in result, result
