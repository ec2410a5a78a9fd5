"""Translations with given beginnings: in Python and as a command."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_transformer as kt
from export.translators.translation import (
    Translation,
    UnknownCharacterError,
)
from tests import made_up_text
from tests.export import commands
from tests.export.translators.test_translator import close, search

TEXTS = [*made_up_text.sentences()[:7], "", "ba ka."]
# No translation begins so by itself.
PREFIXES = ["do ri", "", "mu", "ka ba", "", "ri", "ba", "do", ""]


def ids_of(translator, text):
    return translator.tokenizer.encode([text])[0]


def max_length(translator, text):
    """The most ids that a translation may have, the end id included."""
    extra = translator.model.config.max_extra_tokens
    return len(ids_of(translator, text)) - 1 + extra


def test_each_is_that_of_the_search_alone(translator):
    found = translator.n_best(TEXTS, 4, prefixes=PREFIXES)
    assert found[7] == [Translation("", 0.0)]
    for row, text, prefix in list(zip(found, TEXTS, PREFIXES))[:3]:
        constraints = kt.Constraints(
            max_lengths=[max_length(translator, text)],
            min_lengths=[2],
            prefix=[ids_of(translator, prefix)[:-1]] if prefix else (),
        )
        ids = ids_of(translator, text)
        close(row, search(translator, ids, None, constraints))
    free = translator.translate(TEXTS)
    for row, text, prefix, other in zip(found, TEXTS, PREFIXES, free):
        if text and prefix:
            assert row[0].text.startswith(prefix)
            assert not other.text.startswith(prefix)
        else:
            close(row[:1], [other])


def test_a_translation_may_end_within_a_long_prefix(translator):
    long = "ka ba " * 400
    ((best,),) = translator.n_best(["ba ka."], 1, prefixes=[long])
    assert best.text
    assert long.startswith(best.text)
    length = len(ids_of(translator, best.text))
    assert length <= max_length(translator, "ba ka.")


def test_wrong_numbers_and_unknown_characters_are_refused(translator):
    with pytest.raises(ValueError):
        translator.n_best(TEXTS, 1, prefixes=PREFIXES[:2])
    # The vocabulary lacks "ŵ", also in two code points.
    for prefix, character in (
        ("ba w\u0302a", "w"),
        ("é\u0301 e\u0301 ß", "\u0301"),
        ("e\u0301 ß", "ß"),
    ):
        with pytest.raises(UnknownCharacterError) as caught:
            translator.n_best(TEXTS[:2], 1, prefixes=["ba", prefix])
        assert (caught.value.index, caught.value.character) == (1, character)


def test_translations_begin_with_normalized_prefixes(translator):
    given = ["do ri", "", " do   ri ", "e\u0301", "\uff42\uff41", "ka " * 400]
    expected = ["do ri", "", "do ri", "é", "ba", "ka " * 400]
    assert translator.normalize_prefixes(given) == expected
    found = translator.translate(TEXTS[:1] * 5, prefixes=given[:5])
    for translation, prefix in zip(found, expected):
        assert translation.text.startswith(prefix)


@settings(max_examples=30)
@given(st.text("bdakéà. \u0301ﬁ", max_size=12))
def test_a_normalized_prefix_has_the_same_ids(translator, prefix):
    ids = ids_of(translator, prefix)
    try:
        (normalized,) = translator.normalize_prefixes([prefix])
    except UnknownCharacterError as error:
        assert 1 in ids
        assert error.character in prefix
    else:
        assert 1 not in ids
        assert (ids == ids_of(translator, normalized)).all()


def run(model, texts, folder, lines, *flags):
    content = b"".join(line + b"\n" for line in lines)
    (folder / "prefixes").write_bytes(content)
    flags = [f"--prefixes={folder / 'prefixes'}", *flags]
    answer = commands.run("export.translate", model, texts, *flags)
    assert (folder / "prefixes").read_bytes() == content
    return answer


LINES = [prefix.encode() for prefix in PREFIXES]


def test_the_command_takes_a_prefix_a_line(model_path, translator, tmp_path):
    lines = [*LINES, b"do  ri", "e\u0301 ".encode() + b"ka " * 20, b" ba"]
    texts = [*TEXTS, *TEXTS[:3]]
    code, found, err = run(model_path, texts, tmp_path, lines, "--scores")
    assert code == 0, err
    scores, texts = zip(*[line.split("\t") for line in found])
    expected = translator.translate(TEXTS, prefixes=PREFIXES)
    close([*map(Translation, texts, map(float, scores))][:9], expected)
    assert texts[9].startswith("do ri")
    # Prefixes that are spelled otherwise are reported.
    for words in ("3", "10: 'do  ri' as 'do ri'", "ka …'"):
        assert words in err[-1]


@pytest.mark.parametrize(
    ("lines", "flags", "named"),
    [
        (LINES[:3], [], ["--input", "line 4"]),
        ([*LINES, b""], [], ["--prefixes", "line 10"]),
        ([b"do", b"\xff"], [], ["Line 2 of --prefixes"]),
        (LINES, ["--prefixes=/nowhere"], ["--prefixes=/nowhere"]),
        (["ba ŵa".encode()] * 9, [], ["Line 1 of --prefixes", "U+0175"]),
        (LINES, ["--output={}/prefixes"], ["--output", "prefixes"]),
    ],
)
def test_invalid_prefixes_are_one_line_and_2(
    model_path, tmp_path, lines, flags, named
):
    flags = [flag.format(tmp_path) for flag in flags]
    code, _, err = run(model_path, TEXTS, tmp_path, lines, *flags)
    assert code == 2
    assert err[-1].startswith("Error: ")
    for words in named:
        assert words in err[-1]
