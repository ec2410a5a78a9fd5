"""Written for MarianMTModel and read back, a model is the same to the bit."""

import json

import numpy as np
import pytest
import sentencepiece

from export.pretrained.hugging_face_reader import read_hugging_face
from export.pretrained.hugging_face_writer import (
    write_hugging_face,
)
from export.tokenizers.pretrained_tokenizers import load_tokenizer
from tests import made_up_text
from tests.export import tiny

_HELD = {"norm": "post", "layer_norm_epsilon": 1e-6}


def written(model, vocabulary, folder):
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
        {"share_embeddings": "target-softmax", "num_decoder_layers": 1},
        {"share_embeddings": "none", "output_bias": True},
    ],
    ids=lambda changes: changes["share_embeddings"],
)
def test_a_model_of_ours_comes_back(changes, tmp_path):
    model = tiny.model(**_HELD, **changes)
    vocabulary = made_up_text.vocabulary()
    if changes["share_embeddings"] == "all":
        back = written(model, vocabulary, tmp_path / "hf")
    else:
        own = tiny.model(**_HELD, **changes, source_vocabulary_size=200)
        back = written(own, vocabulary, tmp_path / "hf")
        model = own
    assert_same_weights(model, back.model)
    there, here = back.model.config, model.config
    assert there.architecture() == here.architecture()
    assert (there.beam_size, there.alpha) == (here.beam_size, here.alpha)
    assert (back.source_language, back.target_language) == ("en", "fr")
    # Text gives the same ids, and ids the same text.
    tokenizer, again = (
        load_tokenizer(vocabulary),
        load_tokenizer(back.vocabulary),
    )
    texts = made_up_text.sentences(20)
    for ours, theirs in zip(
        tokenizer.encode(texts), again.source.encode(texts), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    numbers = np.arange(4, 200)[None]
    assert tokenizer.decode(numbers) == again.target.decode(numbers)


def test_an_imported_model_comes_back(recorded, tmp_path):
    folder, found, _, _ = recorded
    back = written(found.model, found.vocabulary, tmp_path / "hf")
    assert_same_weights(found.model, back.model)
    assert back.model.config == found.model.config
    if "target_vocab.json" not in {each.name for each in folder.iterdir()}:
        # Not even a row more.
        table = json.loads((tmp_path / "hf" / "vocab.json").read_text("utf-8"))
        before = json.loads((folder / "vocab.json").read_text("utf-8"))
        assert table.keys() == before.keys()


def test_the_ids_of_the_table_are_those_of_the_pieces(tmp_path):
    model = tiny.model(**_HELD, share_embeddings="all")
    written(model, made_up_text.vocabulary(), tmp_path / "hf")
    table = json.loads((tmp_path / "hf" / "vocab.json").read_text("utf-8"))
    assert sorted(table.values()) == list(range(200))
    assert table["</s>"] == 0 and table["<unk>"] == 1
    assert table["<pad>"] == 199
    processor = sentencepiece.SentencePieceProcessor(
        model_file=str(tmp_path / "hf" / "source.spm")
    )
    pieces = processor.encode(made_up_text.sentences(1)[0], out_type=str)
    assert all(piece in table for piece in pieces)
