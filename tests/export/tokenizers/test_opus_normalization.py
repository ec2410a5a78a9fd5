"""Sources of Marian's directories are read as OPUS-MT's scripts do."""

import re
import unicodedata

import pytest

from export.pretrained.vocabulary import make_vocabulary
from export.tokenizers import pretrained_tokenizers
from export.tokenizers.opus_normalization import OPUS_MT
from export.tokenizers.pretrained_tokenizers import (
    OpusTokenizer,
    load_tokenizer,
)
from export.tokenizers.python_tokenizers import load_python_tokenizers
from export.tokenizers.vocabulary_file import (
    add_normalizer,
    join_vocabularies,
    split_vocabulary,
)
from tests.export.pretrained import marian_directory

# What becomes what, by the scripts; of the digits all but the first.
ASCII = {
    "，": ",",
    "、": ",",
    "”": '"',
    "“": '"',
    "《": '"',
    "》": '"',
    "」": '"',
    "「": '"',
    "１": '"',
    "∶": ":",
    "：": ":",
    "？": "?",
    "）": ")",
    "！": "!",
    "（": "(",
    "；": ";",
    "～": "~",
    "’": "'",
    "…": "...",
    "━": "-",
    "〈": "<",
    "〉": ">",
    "【": "[",
    "】": "]",
    "％": "%",
} | {chr(0xFF10 + digit): str(digit) for digit in (0, *range(2, 10))}
TEXTS = [
    "",
    " ",
    "plain text, nothing to do.",
    "你好，世界。  再见。",
    "。．。 ．   x",
    "全角０１２３４５６７８９",
    "a\x00b\x1fc\td\u200be\ufefff\u00adg\u2060h",
    "  spaces \u00a0 no-break   and \u3000 wide  ",
    "unassigned \u0378 private \ue000 last \U0010ffff",
    "emoji 👍🏽 and e\u0301, Ελληνικά, العربية",
    "“quoted” ‘single’ «guillemets» —dash–",
    "".join(ASCII),
    ">>fra<< ！",
]


@pytest.fixture(scope="module")
def protos():
    table = marian_directory.table()
    return [
        make_vocabulary(
            table, marian_directory.spm(side), 1, None, 0, side
        ).proto
        for side in ("source", "target")
    ]


@pytest.fixture(scope="module")
def vocabulary(protos):
    source, target = protos
    return join_vocabularies(add_normalizer(source, OPUS_MT), target)


@pytest.fixture(scope="module")
def pair(vocabulary):
    return load_tokenizer(vocabulary)


def prepared(text):
    """What the scripts make of a line."""
    for stop in "。．":
        text = re.sub(f"{stop} *", ". ", text)
    text = "".join(ASCII.get(each, each) for each in text)
    text = "".join(
        " " if unicodedata.category(each)[0] == "C" else each for each in text
    )
    return re.sub(" +", " ", text).strip(" ")


def test_text_is_prepared_as_by_the_scripts(pair):
    found = [text.decode() for text in pair.source.clean_text(TEXTS).numpy()]
    assert found == [prepared(text) for text in TEXTS]
    again = [text.decode() for text in pair.source.clean_text(found).numpy()]
    assert again == found


def test_new_lines_stay_for_the_pieces_to_deal_with(pair):
    assert pair.source.clean_text(["a\nb"]).numpy()[0] == b"a\nb"


def test_pieces_are_those_of_the_prepared_text(pair):
    plain = pretrained_tokenizers.TaggedTokenizer(pair.source.proto)
    texts = [f"béta{mark}kodo." for mark in ASCII]
    for found, expected in zip(
        pair.source.encode(texts),
        plain.encode([prepared(text) for text in texts]),
    ):
        assert found.tolist() == expected.tolist()


def test_a_tag_stays_one_piece(pair):
    tagged, plain = pair.source.encode([">>fra<< ba。", "ba。"])
    name = pair.source.id_to_piece(int(tagged[0]))
    assert name == ">>fra<<"
    assert tagged[1:].tolist() == plain.tolist()


def test_targets_are_not_prepared(pair):
    assert pair.target.clean_text(["。"]).numpy()[0].decode() == "。"


def test_without_tensorflow_it_is_the_same(pair, vocabulary):
    source, target = load_python_tokenizers(vocabulary)
    texts = [*TEXTS, *marian_directory.SENTENCES["source"][:5], ">>fra<< ba。"]
    for text, ids in zip(texts, pair.source.encode(texts)):
        assert source.ids(text) == ids.tolist()
        pieces = [pair.source.id_to_piece(number) for number in ids[:-1]]
        assert source.pieces(text) == pieces
    texts = marian_directory.SENTENCES["target"][:20]
    for text, ids in zip(texts, pair.target.encode(texts)):
        assert target.ids(text) == ids.tolist()


def test_which_rules_is_part_of_the_vocabulary(protos, vocabulary, pair):
    assert type(pair.source) is OpusTokenizer
    assert split_vocabulary(vocabulary)[0] == add_normalizer(protos[0], OPUS_MT)
    without = join_vocabularies(*protos)
    assert (
        type(load_tokenizer(without).source)
        is pretrained_tokenizers.TaggedTokenizer
    )
    unknown = join_vocabularies(
        add_normalizer(protos[0], "of tomorrow"), protos[1]
    )
    for read in (load_tokenizer, load_python_tokenizers):
        with pytest.raises(ValueError, match="'of tomorrow'"):
            read(unknown)
