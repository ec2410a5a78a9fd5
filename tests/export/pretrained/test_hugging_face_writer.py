"""Exports hold each field of a configuration, or refuse it."""

import dataclasses
import json

import numpy as np
import pytest

import keras_transformer as kt
from export.common.errors import InputError
from export.ctranslate2.ctranslate2_model import save_ctranslate2
from export.pretrained.hugging_face_reader import read_hugging_face
from export.pretrained.hugging_face_writer import write_hugging_face
from export.tokenizers.pretrained_tokenizers import load_tokenizer
from export.tokenizers.python_tokenizers import join_vocabularies
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


def marian(model, path):
    path.mkdir()
    write_hugging_face(model, made_up_text.vocabulary(), ("en", "fr"), path)


def ctranslate2(model, path):
    pytest.importorskip("ctranslate2")
    vocabulary = made_up_text.vocabulary()
    if model.config.source_vocabulary_size:
        vocabulary = join_vocabularies(vocabulary, vocabulary)
    save_ctranslate2(model, vocabulary, path)


# The fields that each writer refuses, and those that it does not store:
# export.marian prints that its length penalty is another one, and searches are
# arguments of CTranslate2.
REFUSED = {"attention_window", "positions", *WORDS, "d_k", "d_v"}
MARIAN_REFUSED = {"norm", "attention_bias", "sinusoid_rates", "max_positions"}
WRITERS = {
    marian: (REFUSED | MARIAN_REFUSED, {"length_penalty"}),
    ctranslate2: (REFUSED, {*field_names("decoding")}),
}


# These have the weights of the base, or are refused before weights are read.
CONFIG_ONLY = {*field_names("decoding"), "attention_window", "d_k", "d_v"}


@pytest.fixture(scope="module")
def models():
    """A model of the base, and one of each change."""
    assert {name for changes in CHANGES for name in changes} == {
        *field_names("architecture", "decoding")
    }
    base = tiny.model(**BASE)
    return [base] + [
        base
        if changes.keys() <= CONFIG_ONLY or changes.keys() & WORDS.keys()
        else tiny.model(**BASE | changes)
        for changes in CHANGES
    ]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("write", WRITERS)
def test_no_field_is_lost(write, models, tmp_path):
    expected, absent = WRITERS[write]
    before, refused = None, set()
    for number, (model, changes) in enumerate(zip(models, [{}, *CHANGES])):
        path = tmp_path / str(number)
        model.config = tiny.config(**BASE | changes)
        try:
            write(model, path)
        except InputError as error:
            words = {*changes, *map(str, changes.values())}
            assert any(word in str(error) for word in words)
            refused |= changes.keys()
            continue
        before = before or contents(path)
        if changes.keys() - absent:
            assert contents(path) != before, changes
    assert refused == expected


@pytest.mark.parametrize("write", WRITERS)
def test_a_made_up_field_or_value_is_refused(write, models, tmp_path):
    """Unless it has the default."""
    model, fields = models[0], tiny.CONFIG | BASE
    config = tiny.config(**BASE)
    for number, default in enumerate((0, "", False)):
        field = dataclasses.field(
            default=default, metadata={"validate": lambda _, x: x}
        )
        made_up = dataclasses.make_dataclass(
            "MadeUpConfig",
            [("made_up", type(default), field)],
            bases=(kt.TransformerConfig,),
            frozen=True,
            kw_only=True,
        )
        model.config = made_up(**fields)
        write(model, tmp_path / f"default{number}")
        model.config = made_up(**fields, made_up=type(default)(1))
        with pytest.raises(InputError, match="made_up=(1|True)"):
            write(model, tmp_path / f"other{number}")
    for name in ("activation", "share_embeddings", "stop_criterion"):
        model.config = config.replace()
        object.__setattr__(model.config, name, "made-up")
        with pytest.raises(InputError, match=f"{name}=made-up"):
            write(model, tmp_path / name)
    model.config = config


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
    assert back.languages == ("en", "fr")
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
    pretrained = recorded.pretrained
    back = round_trip(pretrained.model, pretrained.vocabulary, tmp_path / "hf")
    assert_same_weights(pretrained.model, back.model)
    assert back.model.config == pretrained.model.config
    if recorded.folder.name == "shared":
        # Without a new row.
        table = recorded._replace(folder=tmp_path / "hf").table("source")
        assert table.keys() == recorded.table("source").keys()
