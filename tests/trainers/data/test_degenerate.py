"""Corpora without usable text, with every rule: refused, nothing written."""

import re
import types
import unicodedata

import pytest

from export.common.errors import InputError
from export.lines.files import clean_line
from export.tokenizers.tags import SPACE
from tests.trainers import cipher
from tests.trainers.data.memory_corpus import (
    MemoryCorpus,
    prepare,
    rows,
    splits,
)
from trainers.data import cleaning, open_corpus
from trainers.data.corpus import EvaluationSet
from trainers.data.vocabulary import NORMALIZATIONS, make_normalizer

_LINES = [*zip(*cipher.sentences(200, 1))]


def _file(lines, end="\n"):
    return "".join(f"{line}{end}" for line in lines)


# A file for both sides, and a pattern of what the message names. The first ones
# are refused when they are opened.
UNREADABLE = {
    "empty": ("", "no sentence pair"),
    "blank": (" \n\t\n\u3000\n" * 9, "no sentence pair"),
    "invisible": ("\u200b\n\ufeff\n\u2060\u00ad\n", "no sentence pair"),
    "byte order mark": ("\ufeff", "no sentence pair"),
    "NUL": ("\0\0\n\0\n", "no sentence pair"),
    "CR": (_file(_LINES[0], "\r"), r"toy\.train\.\w+ .*carriage returns"),
    "CR, huge": ("a b\r" * 400_000, r"Line 1 of .*carriage returns"),
    "one huge line": ("word " * 400_000, "Line 1 of .*longer than 1048576"),
}
CORPORA = {
    "one line": ("a b\n", "vocabulary_size"),
    "SentencePiece's marks": ("\u2581\n\u2585 \u2585\n", "no text"),
    "repeated": ("a b c\n" * 99, "vocabulary_size"),
    "many characters": (
        _file(chr(0x4E00 + number) for number in range(900)),
        "characters alone need 90",
    ),
}
RULES = [
    {},
    {"cleaning": {"drop_duplicates": True}},
    {"cleaning": {"max_ratio": 1.0}, "segmentations": 2},
    {"cleaning": {"check_languages": True}},
    {"copy_rate": 1.0, "byte_fallback": "on", "vocabulary_size": 320},
]


@pytest.fixture
def unknown_language(monkeypatch):
    """A stand-in for py3langid, which finds every text in another language."""
    identifier = types.SimpleNamespace(
        labels=[cipher.SOURCE, cipher.TARGET], classify=lambda text: ("zz", 0.9)
    )
    monkeypatch.setattr(cleaning, "_load_identifier", lambda: identifier)


def _refusal(tmp_path, text, rules):
    for language in (cipher.SOURCE, cipher.TARGET):
        path = tmp_path / f"toy.train.{language}"
        path.write_bytes(text.encode())
    folder = tmp_path / "data"
    with pytest.raises(InputError) as caught:
        corpus = open_corpus(
            f"text:{tmp_path}/toy", cipher.SOURCE, cipher.TARGET
        )
        prepare(folder, corpus, vocabulary=None, max_unknown=1, **rules)
    assert not folder.exists()
    message = str(caught.value)
    # Nothing of SentencePiece.
    assert not re.search(r"\n|INTERNAL|\.cc|sentences_|value <=", message)
    return message


def test_a_corpus_without_a_pair_is_refused(tmp_path):
    for name, (text, named) in UNREADABLE.items():
        assert re.search(named, _refusal(tmp_path, text, {})), name


@pytest.mark.parametrize("name", CORPORA)
def test_a_corpus_without_text_is_refused(tmp_path, unknown_language, name):
    text, named = CORPORA[name]
    for rules in RULES:
        message = _refusal(tmp_path, text, rules)
        # A vocabulary with bytes needs and takes other sizes.
        if "check_languages" in rules.get("cleaning", {}):
            assert re.match(r"None of the \d+ .*--check_languages", message)
        elif "byte_fallback" not in rules or "vocabulary" not in message:
            assert re.search(named, message), message


def _invisible_characters():
    """Those of the categories, and all that a normalization removes."""
    normalizers = [*map(make_normalizer, NORMALIZATIONS[1:])]
    for code in range(0x110000):
        category = unicodedata.category(chr(code))
        # Letters, digits and characters without a meaning stay.
        if category[0] in "LN" or category in ("Cn", "Co", "Cs"):
            continue
        if category in ("Cf", "Cc", "Zs", "Zl", "Zp") or any(
            not normalizer.normalize(chr(code)).strip(SPACE)
            for normalizer in normalizers
        ):
            yield chr(code)


def test_lines_without_a_visible_character_are_blank(tmp_path):
    characters = [*_invisible_characters()]
    assert {"\u200b", "\ufeff", "\u2060", "\ufffd", "\xa0"} <= {*characters}
    for character in characters:
        assert not clean_line(f"{character} {character}\u200b")
        assert clean_line(f"a{character}")
    pairs = rows(40, 1)
    extra = [(character, ("y",)) for character in characters]
    extra += [("x", (character,)) for character in characters]
    corpus = MemoryCorpus(
        splits(train=[*extra, *pairs], dev=[*extra, *pairs], test=extra + pairs)
    )
    prepared = prepare(tmp_path, corpus, max_unknown=1)
    for split in ("train", "dev"):
        assert prepared.manifest.splits[split].num_pairs == 40
        assert prepared.pairs(split).source_lengths.min() > 1
    # In an evaluation they are blank lines, which keep their places.
    test = prepared.test_set()
    assert isinstance(test, EvaluationSet)
    first = len(extra)
    assert test.scored_indices == [*range(first, first + 40)]
    for text in ("a", "1", "\u0301", "☺", "…", "-", "_", "你", "\U0001f600"):
        assert clean_line(f" {text}\u200b\n") == f"{text}\u200b"
