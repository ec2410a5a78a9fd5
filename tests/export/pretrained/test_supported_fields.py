"""Each field of a configuration is exported, refused, or of training."""

import dataclasses

import pytest

import keras_transformer as kt
from export.common.errors import InputError
from export.ctranslate2.ctranslate2_weights import save_ctranslate2
from export.pretrained.hugging_face_writer import (
    check_marian_config,
    write_hugging_face,
)
from keras_transformer.config import field_names
from tests import made_up_text
from tests.export import tiny

BASE = {
    "norm": "post",
    "num_layers": 1,
    "share_embeddings": "target-softmax",
    "max_positions": 20,
}
# Other values of all fields, with what they are possible with.
WORDS = {"source_words_from": 9, "target_words_from": 9}
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
    {"stop": "k_finished"},
    {"max_output_extra": 9},
]
# Of a search, which a CTranslate2 folder does not hold.
OF_CALLERS = {"beam_size", "alpha", "length_penalty", "stop"}
OF_CALLERS |= {"max_output_extra"}


def made_up(default):
    """A configuration with a field that no exporter knows."""
    field = dataclasses.field(default=default, metadata={"limits": []})
    return dataclasses.make_dataclass(
        "MadeUpConfig",
        [("made_up", type(default), field)],
        bases=(kt.TransformerConfig,),
        frozen=True,
        kw_only=True,
    )


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def marian(model, path):
    path.mkdir()
    vocabulary = made_up_text.vocabulary()
    write_hugging_face(model, vocabulary, ("en", "fr"), path)
    return contents(path)


def ctranslate2(model, path):
    pytest.importorskip("ctranslate2")
    vocabulary = made_up_text.vocabulary()
    has_own = model.config.source_vocabulary_size
    of_source = vocabulary if has_own else None
    save_ctranslate2(model, vocabulary, path, source_vocabulary=of_source)
    return contents(path)


WRITERS = [marian, ctranslate2]


def test_the_table_has_every_field():
    changed = {name for changes in CHANGES for name in changes}
    assert changed == {*field_names("architecture", "decoding")}


@pytest.mark.parametrize("write", WRITERS)
def test_no_field_is_lost(write, tmp_path):
    before = write(tiny.model(**BASE), tmp_path / "before")
    refused = set()
    for number, changes in enumerate(CHANGES):
        path = tmp_path / str(number)
        try:
            after = write(tiny.model(**BASE | changes), path)
        except InputError as error:
            # For one of the fields, by its name or value.
            words = {*changes, *map(str, changes.values())}
            assert any(word in str(error) for word in words)
            refused |= changes.keys()
            continue
        of_callers = OF_CALLERS if write is ctranslate2 else set()
        # export.marian prints that the ranking is another one.
        if changes.keys() - of_callers - {"length_penalty"}:
            assert after != before, changes
    expected = {"attention_window", "positions", *WORDS, "d_k", "d_v"}
    if write is ctranslate2:
        assert refused == expected
    else:
        expected |= {"norm", "attention_bias", "sinusoid_rates"}
        assert refused == expected | {"max_positions"}


@pytest.mark.parametrize("write", WRITERS)
def test_a_field_that_is_not_known_is_refused(write, tmp_path):
    model = tiny.model(**BASE)
    given = tiny.CONFIG | BASE
    for number, default in enumerate((0, "", False)):
        kind = made_up(default)
        model.config = kind(**given)
        write(model, tmp_path / f"default{number}")
        model.config = kind(**given, made_up=type(default)(1))
        with pytest.raises(InputError, match="made_up=(1|True)"):
            write(model, tmp_path / f"other{number}")


def test_values_that_are_not_known_are_refused():
    """Of a field with a choice, which may get another one."""
    config = tiny.config(**BASE)
    for name in ("activation", "share_embeddings", "stop", "length_penalty"):
        other = config.replace()
        object.__setattr__(other, name, "made-up")
        with pytest.raises(InputError, match=f"{name}=made-up"):
            check_marian_config(other)
