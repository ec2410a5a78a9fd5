"""Exports hold each field of a configuration, or refuse it."""

import dataclasses
import json

import numpy as np
import pytest

import keras_transformer as kt
from export.common.errors import InputError
from export.ctranslate2.ctranslate2_weights import save_ctranslate2
from export.pretrained.hugging_face_reader import read_hugging_face
from export.pretrained.hugging_face_writer import (
    check_marian_config,
    write_hugging_face,
)
from export.tokenizers.pretrained_tokenizers import load_tokenizer
from export.tokenizers.vocabulary_file import join_vocabularies
from keras_transformer.config import field_names
from tests import made_up_text
from tests.export import tiny

BASE = {
    "norm": "post",
    "num_layers": 1,
    "share_embeddings": "target-softmax",
    "max_positions": 20,
}
# Other values of all fields, with the fields that they need.
WORDS = {"first_source_word_id": 9, "first_target_word_id": 9}
CHANGES = [
    {"vocabulary_size": 200, "source_vocabulary_size": 200},
    {"num_layers": 2, "num_decoder_layers": 1},
    {"num_decoder_layers": 2},
    {"d_model": 32, "d_k": 16, "d_v": 16},
    {"d_ff": 24},
    {"num_heads": 4, "d_k": 4, "d_v": 4},
    {"d_k": 4},
    {"d_v": 4},
    {"norm": "pre"},
    {"layer_norm_epsilon": 1e-3},
    {"activation": "gelu"},
    {"attention_bias": False},
    {"share_embeddings": "none"},
    {"output_bias": True},
    {"positions": "learned"},
    {"positions": "learned", "max_positions": 30},
    {"positions": "words", **WORDS},
    {"positions": "next-word", **WORDS},
    {"sinusoid_rates": "marian"},
    {"attention_window": 3},
    {"beam_size": 7},
    {"alpha": 0.9},
    {"length_penalty": "power"},
    {"stop_criterion": "k_finished"},
    {"max_extra_tokens": 9},
]
# Arguments of CTranslate2, not in its folder.
SEARCH = {
    "beam_size",
    "alpha",
    "length_penalty",
    "stop_criterion",
    "max_extra_tokens",
}


def read_contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def marian(model, path):
    path.mkdir()
    vocabulary = made_up_text.vocabulary()
    write_hugging_face(model, vocabulary, ("en", "fr"), path)
    return read_contents(path)


def ctranslate2(model, path):
    pytest.importorskip("ctranslate2")
    vocabulary = made_up_text.vocabulary()
    if model.config.source_vocabulary_size:
        vocabulary = join_vocabularies(vocabulary, vocabulary)
    save_ctranslate2(model, vocabulary, path)
    return read_contents(path)


WRITERS = [marian, ctranslate2]


@pytest.mark.parametrize("write", WRITERS)
def test_no_field_is_lost(write, tmp_path):
    changed = {name for changes in CHANGES for name in changes}
    assert changed == {*field_names("architecture", "decoding")}
    before = write(tiny.model(**BASE), tmp_path / "before")
    refused = set()
    for number, changes in enumerate(CHANGES):
        path = tmp_path / str(number)
        try:
            after = write(tiny.model(**BASE | changes), path)
        except InputError as error:
            words = {*changes, *map(str, changes.values())}
            assert any(word in str(error) for word in words)
            refused |= changes.keys()
            continue
        # export.marian prints that its length penalty is another one.
        absent = SEARCH if write is ctranslate2 else {"length_penalty"}
        if changes.keys() - absent:
            assert after != before, changes
    expected = {"attention_window", "positions", *WORDS, "d_k", "d_v"}
    if write is marian:
        expected |= {"norm", "attention_bias", "sinusoid_rates"}
        expected |= {"max_positions"}
    assert refused == expected


@pytest.mark.parametrize("write", WRITERS)
def test_a_made_up_field_is_refused(write, tmp_path):
    """Unless it has the default."""
    model = tiny.model(**BASE)
    fields = tiny.CONFIG | BASE
    for number, default in enumerate((0, "", False)):
        kind = dataclasses.make_dataclass(
            "MadeUpConfig",
            [
                (
                    "made_up",
                    type(default),
                    dataclasses.field(default=default, metadata={"limits": []}),
                )
            ],
            bases=(kt.TransformerConfig,),
            frozen=True,
            kw_only=True,
        )
        model.config = kind(**fields)
        write(model, tmp_path / f"default{number}")
        model.config = kind(**fields, made_up=type(default)(1))
        with pytest.raises(InputError, match="made_up=(1|True)"):
            write(model, tmp_path / f"other{number}")


def test_a_made_up_value_is_refused():
    for name in (
        "activation",
        "share_embeddings",
        "stop_criterion",
        "length_penalty",
    ):
        config = tiny.config(**BASE)
        object.__setattr__(config, name, "made-up")
        with pytest.raises(InputError, match=f"{name}=made-up"):
            check_marian_config(config)


def round_trip(model, vocabulary, folder):
    folder.mkdir()
    write_hugging_face(model, vocabulary, ("en", "fr"), folder)
    return read_hugging_face(folder)


def assert_same_weights(one, other):
    assert len(one.weights) == len(other.weights)
    for ours, theirs in zip(one.weights, other.weights):
        assert ours.path.split("/")[1:] == theirs.path.split("/")[1:]
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "changes",
    [
        {"share_embeddings": "all", "activation": "silu"},
        {
            "share_embeddings": "target-softmax",
            "num_decoder_layers": 1,
            "source_vocabulary_size": 200,
        },
        {
            "share_embeddings": "none",
            "output_bias": True,
            "source_vocabulary_size": 200,
        },
    ],
    ids=lambda changes: changes["share_embeddings"],
)
def test_a_written_model_is_read_back(changes, tmp_path):
    """Its weights, to the bit, its search and its vocabulary."""
    model = tiny.model(norm="post", layer_norm_epsilon=1e-6, **changes)
    vocabulary = made_up_text.vocabulary()
    back = round_trip(model, vocabulary, tmp_path / "hf")
    assert_same_weights(model, back.model)
    config, expected = back.model.config, model.config
    assert config.architecture() == expected.architecture()
    search = expected.beam_size, expected.alpha
    assert (config.beam_size, config.alpha) == search
    assert (back.source_language, back.target_language) == ("en", "fr")
    tokenizer = load_tokenizer(vocabulary)
    again = load_tokenizer(back.vocabulary)
    texts = made_up_text.sentences(20)
    for one, other in zip(tokenizer.encode(texts), again.source.encode(texts)):
        np.testing.assert_array_equal(one, other)
    numbers = np.arange(4, 200)[None]
    assert tokenizer.decode(numbers) == again.target.decode(numbers)
    if changes["share_embeddings"] == "all":
        table = json.loads((tmp_path / "hf" / "vocab.json").read_text("utf-8"))
        assert sorted(table.values()) == list(range(200))
        special = table["</s>"], table["<unk>"], table["<pad>"]
        assert special == (0, 1, 199)


def test_an_imported_model_is_read_back(recorded, tmp_path):
    folder, pretrained, _, _ = recorded
    back = round_trip(pretrained.model, pretrained.vocabulary, tmp_path / "hf")
    assert_same_weights(pretrained.model, back.model)
    assert back.model.config == pretrained.model.config
    if not (folder / "target_vocab.json").exists():
        # Without a new row.
        tables = [
            json.loads((each / "vocab.json").read_text("utf-8"))
            for each in (folder, tmp_path / "hf")
        ]
        assert tables[0].keys() == tables[1].keys()
