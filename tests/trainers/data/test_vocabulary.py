"""Vocabularies and normalization of any script."""

import dataclasses
import functools
import random
import re
import unicodedata

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from export.tokenizers.tokenizer import Tokenizer
from tests.trainers import cipher
from tests.trainers.data.memory_corpus import (
    MemoryCorpus,
    contents,
    prepare,
    refused,
    rows,
    splits,
    vocabulary,
)
from trainers.data.vocabulary import (
    NFC_RULES,
    NFKC_RULES,
    NORMALIZATIONS,
    choose_normalization,
    count_code_points,
    frequent_characters,
    normalization_name,
    train_vocabulary,
)

RULES = NORMALIZATIONS[1:]
LATIN = [text for pair in cipher.sentences(200) for text in pair]
VIETNAMESE = "Tiếng Việt: ở đây có nhiều chữ lạ, ừ thì những ngõ hẹp đã rộng"
KOREAN = "각하 값이 없는 닭"
SCRIPTS = {
    "Vietnamese": unicodedata.normalize("NFD", VIETNAMESE),
    "Korean": unicodedata.normalize("NFD", KOREAN),
    "Hindi": "क़ानून ज़रूर \u0929\u0928\u093c",
    "Arabic": "ا\u0653\u0627\u0654 \u0648\u0654",
    "half-width": "ｶﾞｷﾞｸﾞﾊﾟ ﾡￂ",
    "Persian": "می\u200cشود نمی\u200cخواهم",
    "Thai": "ทำน้ำ",
    "Chinese": "你好，世界！（是吗？）",
}
WHITE = "a\tb\u00a0c\u3000d\u200ce\ufefff\u2581g  h \x07"
# Letters, marks that join them, white space, and what is invisible.
CHARACTERS = st.sampled_from(
    "aeo\u0301\u0302\u0323\u1100\u1161\u11a8ｶﾞ\u3099か한क\u093cำ，m²ﬁ…İß"
    " \t\u00a0\u3000\u200b\u200c\u200d\ufeff\ufffd\u0007\u2581\u2585"
) | st.characters(exclude_categories=["Cs", "Cn"], exclude_characters="\0")
TEXTS = st.lists(st.text(CHARACTERS, max_size=12), min_size=1, max_size=6)


def _trained(texts, rules):
    texts = [*LATIN, *texts * 3]
    needed = frequent_characters(texts, 2000, rules)
    model = train_vocabulary(texts, len(needed) + 40, needed, rules)
    assert normalization_name(model) == rules
    return model


@functools.cache
def _of_scripts(rules):
    return _trained([*SCRIPTS.values(), WHITE, "²½ﬁ"], rules)


def _unknown(model, text):
    ids = sentencepiece.SentencePieceProcessor(model_proto=model).encode(text)
    return 1 in ids


@settings(max_examples=15)
@given(st.sampled_from(RULES), TEXTS)
def test_characters_that_occur_three_times_are_known(rules, texts):
    model = _trained(texts, rules)
    for text in texts:
        # Reserved characters have none.
        text = text.translate({0x2585: " ", 0x1F: " "})
        assert not _unknown(model, text), ascii(text)


@settings(max_examples=40)
@given(st.sampled_from(RULES), st.text(CHARACTERS, max_size=20))
def test_tensorflow_tokenizes_as_sentencepiece_does(rules, text):
    model = _of_scripts(rules)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    (ids,) = Tokenizer(model).encode([text])
    assert ids.tolist() == [*processor.encode(text), processor.eos_id()]


def test_nmt_nfc_leaves_words_as_they_are_spelled():
    tokenizer = Tokenizer(_of_scripts(NFC_RULES))
    texts = [*SCRIPTS.values(), WHITE]
    expected = [unicodedata.normalize("NFC", text) for text in texts]
    expected[-1] = "a b c d\u200ce f g h"
    ids = tokenizer.encode(texts)
    assert [tokenizer.decode([row])[0] for row in ids] == expected


def test_auto_keeps_the_text_of_each_side():
    latin = count_code_points(LATIN)
    for text, rules in (
        *((SCRIPTS[name], NFC_RULES) for name in ("Persian", "Thai")),
        *((SCRIPTS[name], NFC_RULES) for name in ("Chinese", "half-width")),
        *((SCRIPTS[name], NFKC_RULES) for name in ("Vietnamese", "Korean")),
        ("Où\u00a0? « Ça va… » 3 m² " + "d'accord " * 200, NFKC_RULES),
        ("\u3000\t\u00a0", NFKC_RULES),
        ("", NFKC_RULES),
    ):
        other = count_code_points([text])
        for counts in ([other], [other, latin], [latin, other]):
            assert choose_normalization("auto", counts) == rules
    assert choose_normalization("identity", [latin]) == "identity"


@pytest.mark.parametrize("space", [" ", ""])
def test_no_line_is_too_long_to_learn_from(space):
    generator = random.Random(1)
    letters = "αβγδεζηθικ"
    words = ["".join(generator.choices(letters, k=4)) for _ in range(3000)]
    text = space.join(words)
    model = train_vocabulary([text], 90)
    assert not _unknown(model, text)
    if space:
        # As if each word were a line.
        assert model == train_vocabulary(words, 90)
    # SentencePiece alone skips lines with a reserved character.
    assert not _unknown(train_vocabulary(["▅ ab ba"], 9), "ab ba")


def _cyrillic(text):
    return text.translate({ord(c): ord(c) + 0x3D0 for c in set(text) - {" "}})


def test_text_that_the_vocabulary_does_not_know_is_refused(tmp_path, capsys):
    foreign = [(s, tuple(map(_cyrillic, t))) for s, t in splits()["test"]]
    corpus = MemoryCorpus(splits(test=foreign))
    with pytest.raises(InputError, match="--max_unknown=0.05") as caught:
        prepare(tmp_path, corpus)
    assert contents(tmp_path) == {}
    prepare(tmp_path, corpus, max_unknown=1)
    # The same share and examples are printed.
    share = str(caught.value).partition("; use")[0]
    assert share in capsys.readouterr().out


def test_unknown_tokens_are_counted_by_side(tmp_path):
    train = rows(400, 1)
    train[7] = ("ba \u4f60", ("yz",))
    train[9] = ("do", ("wh \u4f60 \u597d",))
    corpus = MemoryCorpus({"train": train})
    prepared = prepare(tmp_path, corpus, workers=3)
    split = prepared.manifest.splits["train"]
    found = [
        dataclasses.astuple(side)[1:] for side in (split.source, split.target)
    ]
    assert found == [(1, "\u4f60"), (2, "\u4f60\u597d")]


def test_the_normalization_is_part_of_the_data(tmp_path, capsys):
    train = {"train": [*rows(40, 1), *[("ทำ ba", ("yz wh",))] * 3]}
    corpus = MemoryCorpus(train)
    made = {"vocabulary": None, "vocabulary_size": 70}
    prepared = prepare(tmp_path, corpus, **made)
    assert normalization_name(prepared.vocabulary) == NFC_RULES
    assert "nmt_nfc changes 0.00%" in capsys.readouterr().out
    with pytest.raises(InputError, match="normalization=auto, not nfkc"):
        prepare(tmp_path, corpus, **made, normalization="nfkc")
    other = tmp_path / "other"
    prepared = prepare(other, corpus, **made, normalization=NFKC_RULES)
    assert normalization_name(prepared.vocabulary) == NFKC_RULES
    assert "(ำ)" in capsys.readouterr().out
    known = {"vocabulary": vocabulary(), "max_unknown": 1}
    with pytest.raises(InputError, match="--normalization"):
        prepare(tmp_path / "3", corpus, **known, normalization="identity")
    prepare(tmp_path / "4", corpus, **known, normalization=NFKC_RULES)


def test_frequent_characters_by_hand():
    for texts, limit, expected in (
        # The most frequent first, none below three.
        (["aab", "ba%", "b9", "b99%"], 9, "b9a"),
        (["aaaa bbb", "ccccc"], 2, "ca"),
        (["aaaa bbb", "ccccc"], 0, ""),
        # Full-width digits, a ligature and an ideographic space.
        (
            ["\uff12\uff12 2", "\ufb01\ufb01", "fi\u3000\u3000\u3000"],
            *(9, "2fi"),
        ),
        ([" \t\x00\u2581\r" * 5], 9, ""),
    ):
        assert frequent_characters(texts, limit) == expected
    # U+FDFA is a phrase of four words, U+FDFB one of two.
    found = frequent_characters(["\u2585\u2581", "\ufdfa \ufdfb"] * 3, 99)
    assert found and not set("\u2581\u2585 ") & set(found)


def test_a_vocabulary_of_byte_pairs():
    model = train_vocabulary(iter(LATIN), 60)
    assert model == train_vocabulary(LATIN, 60)
    tokenizer = Tokenizer(model)
    assert tokenizer.vocabulary_size == 60
    special = [tokenizer.id_to_token(i) for i in range(4)]
    assert special == ["<pad>", "<unk>", "<s>", "</s>"]
    ids = tokenizer.encode(LATIN)
    assert not any((row == 1).any() for row in ids)
    assert all(row[-1] == 3 for row in ids)
    assert [tokenizer.decode([row])[0] for row in ids[:20]] == LATIN[:20]


def test_impossible_sizes_and_texts_are_refused():
    for size, match in ((5000, "5000 .*too large"), (6, "6 .*too small")):
        with pytest.raises(InputError, match=match) as caught:
            train_vocabulary(LATIN, size)
        # The message names a size that works.
        _, possible = map(int, re.findall(r"\d+", str(caught.value)))
        assert train_vocabulary(LATIN, possible)
    for texts, size in (
        *((LATIN, 10**10), ([], 60), ([" \u200b"], 60), (["\u2585"], 60)),
    ):
        with refused(None):
            train_vocabulary(iter(texts), size)


@pytest.mark.parametrize(
    "error", [InputError("Line 7 of x.en is not UTF-8."), KeyboardInterrupt()]
)
def test_errors_of_the_corpus_are_raised_as_they_are(error):
    """They are raised inside SentencePiece's call."""

    def broken():
        yield from LATIN
        raise error

    with pytest.raises(type(error)) as caught:
        train_vocabulary(broken(), 60)
    assert caught.value is error
