"""Restricted output vocabularies: their files, and translations by them."""

import collections
import gzip

import numpy as np
import pytest
import sentencepiece

from export.common.errors import InputError
from export.serving.served_translator import ServedTranslator
from export.translators import output_vocabulary_files
from export.translators.batches import pad_ids
from export.translators.translator import Translator
from tests import made_up_text
from tests.export import commands, tiny
from tests.export.translators.made_up_shortlist import made_up_shortlist

TEXTS = [*made_up_text.sentences()[:5], ""]
TARGETS = made_up_text.sentences()[40:44]
SIZE = 40


@pytest.fixture(scope="module")
def ids(translator, tmp_path_factory):
    path = tmp_path_factory.mktemp("target") / "target.fr"
    path.write_text("\n".join(TARGETS), encoding="utf-8")
    return output_vocabulary_files.collect_target_pieces(
        translator.tokenizer, [path]
    )


@pytest.fixture(scope="module")
def shortlist_path(translator, tmp_path_factory):
    path = tmp_path_factory.mktemp("lex") / "lex.gz"
    text = made_up_shortlist(translator.tokenizer)
    path.write_bytes(gzip.compress(text.encode()))
    return path


@pytest.fixture(scope="module")
def shortlist(translator, shortlist_path):
    return output_vocabulary_files.read_shortlist(
        shortlist_path, translator.tokenizer, translator.model.config, SIZE
    )


@pytest.fixture(scope="module", params=["target_pieces", "shortlist"])
def settings(request, ids, shortlist):
    value = ids if request.param == "target_pieces" else shortlist
    return {
        request.param: value,
        "max_source_tokens": tiny.MAX_SOURCE_TOKENS,
    }


@pytest.fixture(scope="module")
def restricted(translator, settings):
    return Translator.from_model(
        translator.model, translator.tokenizer, **settings
    )


def test_translations_have_only_the_chosen_tokens(
    restricted, translator, settings
):
    for pair in restricted.translate_to_pairs(TEXTS[:-1]):
        allowed = restricted.backend.target_pieces
        if allowed is None:
            shortlist = settings["shortlist"]
            allowed = np.asarray(shortlist.sentence_ids(pair.source.ids[None]))[
                0
            ]
        assert {*pair.target.ids.tolist()} <= {*map(int, allowed)} | {
            0,
            1,
            2,
            3,
        }
    texts = [each.text for each in restricted.translate(TEXTS)]
    assert texts != [each.text for each in translator.translate(TEXTS)]
    # A sentence alone gives what it gives among others.
    assert restricted.translate(TEXTS[:1])[0].text == texts[0]
    scores = restricted.score(TEXTS[:4], TARGETS)
    assert scores == pytest.approx(translator.score(TEXTS[:4], TARGETS))
    with pytest.raises(ValueError, match="no prefix"):
        restricted.translate(TEXTS[:1], prefixes=["ba"])


def test_a_server_answers_the_same(restricted, translator, settings):
    served = ServedTranslator(
        translator.model, translator.tokenizer, **settings
    )
    found, expected = served.translate(TEXTS), restricted.translate(TEXTS)
    texts = [text.decode() for text in found["translation"].numpy()]
    assert texts == [each.text for each in expected]
    scores = [each.score for each in expected]
    np.testing.assert_allclose(found["score"], scores, rtol=1e-4)


def test_target_pieces_are_the_texts_and_single_characters(
    translator, ids, tmp_path
):
    vocabulary = sentencepiece.SentencePieceProcessor(
        model_proto=translator.tokenizer.proto
    )
    of_text = {number for text in TARGETS for number in vocabulary.encode(text)}
    single = {
        number
        for number in range(len(vocabulary))
        if len(vocabulary.id_to_piece(number)) == 1
    }
    assert set(ids) == of_text | single
    # Several files are one text.
    paths = tmp_path / "a.gz", tmp_path / "b"
    paths[0].write_bytes(gzip.compress("\n".join(TARGETS[:2]).encode()))
    paths[1].write_text("\n".join(TARGETS[2:]), encoding="utf-8")
    collect_target_pieces = output_vocabulary_files.collect_target_pieces
    assert collect_target_pieces(translator.tokenizer, paths) == ids
    path = tmp_path / "bad"
    path.write_bytes(b"\n\n")
    for each in (path, tmp_path / "missing"):
        with pytest.raises(InputError, match=each.name):
            collect_target_pieces(translator.tokenizer, [each])


def test_an_exports_file_is_read_as_it_was_written(translator, ids, tmp_path):
    path = tmp_path / output_vocabulary_files.TARGET_PIECES_FILE
    path.parent.mkdir()
    text = output_vocabulary_files.format_target_pieces(
        ids, translator.tokenizer
    )
    path.write_text(text, encoding="utf-8")
    assert output_vocabulary_files.read_target_pieces(tmp_path) == ids
    path.write_text("5\tx\nsix\ty\n", encoding="utf-8")
    with pytest.raises(InputError, match="target_pieces"):
        output_vocabulary_files.read_target_pieces(tmp_path)


def test_a_sentences_shortlist_is_what_the_file_says(
    translator, shortlist_path, shortlist
):
    source = pad_ids(translator.tokenizer.encode(TEXTS))
    for row, text in zip(np.asarray(shortlist.sentence_ids(source)), TEXTS):
        assert row.tolist() == expected_list(translator, shortlist_path, text)


def expected_list(translator, path, text):
    """What the file says of a sentence, added up line by line."""
    tokenizer = translator.tokenizer
    ids = tokenizer.encode([text])[0]
    counts = collections.Counter(map(tokenizer.id_to_token, ids.tolist()))
    score = collections.Counter()
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        target, source, probability = line.split(" ")
        times = 1 if source == "NULL" else counts[source]
        score[target] += times * float(probability)
    for piece, times in counts.items():
        score[piece] += times * 0.01
    names = [tokenizer.id_to_token(number) for number in range(200)]
    best = sorted(range(4, 200), key=lambda each: (-score[names[each]], each))
    return sorted([0, 1, 2, 3, *best[: SIZE - 4]])


def test_invalid_shortlists_are_refused(translator, tmp_path):
    path = tmp_path / "lex"
    for content, where in (
        ("", "lex"),
        ("a b\n", "Line 1 of"),
        ("a a nan\n", "Line 1 of"),
        ("a a 0.5\na a 1.5\n", "Line 2 of"),
        ("a \u4e2d\u4e2d 0.5\n", "Line 1 of"),
    ):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(InputError, match=where):
            output_vocabulary_files.read_shortlist(
                path, translator.tokenizer, translator.model.config, SIZE
            )


@pytest.mark.parametrize(
    "search",
    [
        {"shortlist_size": 9},
        {"shortlist": "x", "target_pieces": ["y"]},
        {"shortlist": "x", "prefixes": "x"},
        {"target_pieces": "x", "prefixes": "x"},
        {"shortlist": "x", "shortlist_size": 200},
    ],
)
def test_flags_that_do_not_go_together(model_path, search):
    flags = [f"--{name}={value}" for name, value in search.items()]
    code, _, err = commands.run("export.translate", model_path, TEXTS, *flags)
    assert code == 2 and f"--{next(iter(search))}" in err[-1]
