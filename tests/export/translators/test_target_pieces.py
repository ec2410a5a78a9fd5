"""The pieces of given text, and translations that are made of them."""

import gzip

import numpy as np
import pytest
import sentencepiece

from export.common.errors import InputError
from export.serving.served_translator import ServedTranslator
from export.translators import target_pieces
from export.translators.load import load_translator
from export.translators.translator import Translator
from tests import made_up_text
from tests.export import tiny

TEXTS = [*made_up_text.sentences()[:5], ""]
SAID = made_up_text.sentences()[40:44]


@pytest.fixture(scope="module")
def vocabulary(translator):
    return sentencepiece.SentencePieceProcessor(
        model_proto=translator.tokenizer.proto
    )


@pytest.fixture(scope="module")
def ids(translator, tmp_path_factory):
    path = tmp_path_factory.mktemp("said") / "said.fr"
    path.write_text("\n".join(SAID), encoding="utf-8")
    return target_pieces.ids_of_text(translator.tokenizer, [path])


@pytest.fixture(scope="module")
def limited(translator, ids):
    return Translator(
        translator.model,
        translator.tokenizer,
        max_source_tokens=tiny.MAX_SOURCE_TOKENS,
        target_pieces=ids,
    )


def test_target_pieces_are_the_texts_and_single_characters(ids, vocabulary):
    of_text = {number for text in SAID for number in vocabulary.encode(text)}
    single = {
        number
        for number in range(len(vocabulary))
        if len(vocabulary.id_to_piece(number)) == 1
    }
    assert set(ids) == of_text | single
    assert of_text - single
    assert len(ids) < len(vocabulary)


def test_several_files_are_one_text_and_gzip_is_unpacked(
    translator, ids, tmp_path
):
    paths = tmp_path / "a.gz", tmp_path / "b"
    paths[0].write_bytes(gzip.compress("\n".join(SAID[:2]).encode()))
    paths[1].write_text("\n".join(SAID[2:]), encoding="utf-8")
    assert target_pieces.ids_of_text(translator.tokenizer, paths) == ids


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "Cannot read"),
        (b"", "There is no text in"),
        (b"\n\n", "There is no text in"),
        (b"a\nb \xff c\n", "Line 2 of .* is not UTF-8"),
    ],
)
def test_what_is_no_text_is_refused(translator, tmp_path, content, message):
    path = tmp_path / "text"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        target_pieces.ids_of_text(translator.tokenizer, [path])
    with pytest.raises(InputError, match="is a folder"):
        target_pieces.ids_of_text(translator.tokenizer, [tmp_path])


def test_an_exports_file_is_read_as_it_was_written(
    translator, ids, vocabulary, tmp_path
):
    path = tmp_path / target_pieces.FILE
    path.parent.mkdir()
    text = target_pieces.to_text(ids, translator.tokenizer.proto)
    path.write_text(text, encoding="utf-8")
    assert target_pieces.read_ids(tmp_path) == ids
    assert f"{ids[-1]}\t{vocabulary.id_to_piece(ids[-1])}\n" in text
    path.write_text("5\tx\nsix\ty\n", encoding="utf-8")
    with pytest.raises(InputError, match="Line 2 of"):
        target_pieces.read_ids(tmp_path)


def test_scores_of_given_translations_are_the_whole_models(limited, translator):
    given = [*SAID, SAID[0], ""]
    assert limited.score(TEXTS, given) == pytest.approx(
        translator.score(TEXTS, given)
    )


def test_what_is_served_says_the_same_and_no_other_target_pieces(
    limited, translator, ids
):
    served = ServedTranslator(
        translator.model,
        translator.tokenizer,
        max_source_tokens=tiny.MAX_SOURCE_TOKENS,
        target_pieces=ids,
    )
    assert served.limits()["target_pieces"] == len(limited.target_pieces)
    found = served.align(TEXTS)
    expected = limited.align(TEXTS)
    assert [text.decode() for text in found["translation"].numpy()] == [
        each.text for each in expected
    ]
    np.testing.assert_allclose(
        found["score"], [each.score for each in expected], rtol=1e-4
    )
    sayable = {
        translator.tokenizer.id_to_piece(number)
        for number in limited.target_pieces
    }
    pieces = found["target_tokens"].numpy().ravel().tolist()
    assert {piece.decode() for piece in pieces} <= sayable | {""}
    # The whole model says others.
    whole = [each.text for each in translator.translate(TEXTS)]
    assert whole != [each.text for each in expected]


def test_prefixes_and_target_pieces_do_not_go_together(
    model_path, limited, tmp_path
):
    search = {"target_pieces": [tmp_path / "text"]}
    with pytest.raises(InputError, match="leave out one of them"):
        load_translator([model_path], 64, search, ["prefixes"])
    with pytest.raises(ValueError, match="no prefix"):
        limited.translate(TEXTS[:1], prefixes=["ba"])
