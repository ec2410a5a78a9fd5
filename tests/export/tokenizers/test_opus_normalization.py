"""Sources of Marian's directories are normalized as by OPUS-MT's scripts."""

import re
import sys
import unicodedata

import pytest

from export.pretrained.vocabulary import make_vocabulary
from export.tokenizers.pretrained_tokenizers import (
    OpusTokenizer,
    TaggedTokenizer,
    load_tokenizer,
)
from export.tokenizers.python_tokenizers import (
    OPUS_MT,
    add_kind,
    join_vocabularies,
    load_python_tokenizers,
    normalize_opus,
    split_vocabulary,
)
from tests.export.pretrained import marian_directory

# Replacements by the scripts; of the digits all but the first.
FULL_WIDTH = "，、”“《》」「１∶：？）！（；～’━〈〉【】％"
ASCII = dict(zip(FULL_WIDTH, ',,"""""""::?)!(;~\'-<>[]%', strict=True))
ASCII |= {"…": "..."}
ASCII |= {chr(0xFF10 + digit): str(digit) for digit in (0, *range(2, 10))}
TEXTS = [
    "",
    " ",
    "你好，世界。  再见。",
    "。．。 ．   x",
    "全角０１２３４５６７８９",
    "a\x00b\x1fc\td\u200be\ufefff\u00adg\u2060h",
    "  spaces \u00a0 no-break   and \u3000 wide  ",
    "unassigned \u0378 private \ue000 last \U0010ffff",
    "emoji 👍🏽 and e\u0301, Ελληνικά, العربية",
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
    return join_vocabularies(add_kind(source, OPUS_MT), target)


@pytest.fixture(scope="module")
def pair(vocabulary):
    return load_tokenizer(vocabulary)


def normalize(text):
    """Normalizes a line as the scripts do."""
    for stop in "。．":
        text = re.sub(f"{stop} *", ". ", text)
    text = "".join(ASCII.get(each, each) for each in text)
    text = "".join(
        " " if unicodedata.category(each)[0] == "C" else each for each in text
    )
    return re.sub(" +", " ", text).strip(" ")


def test_text_is_normalized_as_by_the_scripts(pair):
    cleaned = [text.decode() for text in pair.source.clean_text(TEXTS).numpy()]
    assert cleaned == [normalize(text) for text in TEXTS]
    # SentencePiece handles new lines.
    assert pair.source.clean_text(["a\nb"]).numpy()[0] == b"a\nb"
    assert pair.target.clean_text(["。"]).numpy()[0].decode() == "。"


def test_all_of_unicode_is_normalized_alike_in_both_engines(pair):
    characters = [
        *map(chr, range(1, 0xD800)),
        *map(chr, range(0xE000, sys.maxunicode + 1)),
    ]
    texts = ["".join(characters[start::1000]) + " x" for start in range(1000)]
    cleaned = pair.source.clean_text(texts).numpy()
    assert [text.decode() for text in cleaned] == [*map(normalize_opus, texts)]


def test_a_tag_stays_in_front_of_normalized_text(pair):
    tagged, plain = pair.source.encode([">>fra<< ba。", "ba. "])
    assert pair.source.id_to_token(int(tagged[0])) == ">>fra<<"
    assert tagged[1:].tolist() == plain.tolist()


def test_without_tensorflow_it_is_the_same(pair, vocabulary):
    source, target = load_python_tokenizers(vocabulary)
    sentences = marian_directory.SENTENCES
    texts = [*TEXTS, *sentences["source"][:5], ">>fra<< ba。"]
    for text, ids in zip(texts, pair.source.encode(texts)):
        assert source.ids(text) == ids.tolist()
        pieces = [pair.source.id_to_token(number) for number in ids[:-1]]
        assert source.tokens(text) == pieces
    text = sentences["target"][0]
    assert target.ids(text) == pair.target.encode([text])[0].tolist()


def test_the_vocabulary_names_the_normalization(protos, vocabulary, pair):
    assert type(pair.source) is OpusTokenizer
    assert split_vocabulary(vocabulary)[0] == add_kind(protos[0], OPUS_MT)
    without = load_tokenizer(join_vocabularies(*protos))
    assert type(without.source) is TaggedTokenizer
    unknown = join_vocabularies(add_kind(protos[0], "of tomorrow"), protos[1])
    for load in (load_tokenizer, load_python_tokenizers):
        with pytest.raises(ValueError, match="'of tomorrow'"):
            load(unknown)
