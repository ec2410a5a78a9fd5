"""Translations with given beginnings: in Python and as a command."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_transformer as kt
from export.translators.text_ids import UnknownCharacter
from export.translators.text_translator import Translation, word_alignment
from export.translators.translator import Translator
from tests import made_up_text
from tests.export import commands
from tests.export.translators.test_translator import close

TEXTS = [*made_up_text.sentences()[:7], "", "ba ka."]
# No translation begins so by itself.
PREFIXES = ["do ri", "", "mu", "ka ba", "", "ri", "ba", "do", ""]


@pytest.fixture(scope="module")
def compiled(translator):
    return Translator(translator.model, translator.tokenizer, compiled=True)


def ids_of(translator, text):
    return translator.tokenizer.encode([text])[0]


def max_length(translator, text):
    """The most ids that a translation may have, the end id included."""
    extra = translator.model.config.max_extra_tokens
    return len(ids_of(translator, text)) - 1 + extra


def alone(translator, text, prefix):
    """The search run eagerly, in loops of fixed shapes."""
    source = tf.constant([ids_of(translator, text)])
    length = max_length(translator, text)
    constraints = kt.Constraints(
        max_lengths=[length],
        min_lengths=[2],
        prefix=[ids_of(translator, prefix)[:-1]] if prefix else (),
    )
    return kt.translate_ids(translator.model, source, length, constraints)


def test_each_is_that_of_the_search_alone(translator):
    found = translator.n_best(TEXTS, 4, prefixes=PREFIXES)
    assert found[7] == [Translation("", 0.0)]
    for row, text, prefix in list(zip(found, TEXTS, PREFIXES))[:4]:
        tokens, scores, _ = alone(translator, text, prefix)
        forced = ids_of(translator, prefix)[:-1]
        assert (tokens.numpy()[0, :, : len(forced)] == forced).all()
        decoded = translator.tokenizer.decode(tokens[0])
        close(row, [*map(Translation, decoded, scores.numpy()[0].tolist())])
    free = translator.translate(TEXTS)
    for row, text, prefix, other in zip(found, TEXTS, PREFIXES, free):
        if text and prefix:
            assert row[0].text.startswith(prefix)
            assert not other.text.startswith(prefix)
        else:
            close(row[:1], [other])


def test_scores_are_the_models_own(translator):
    text, prefix = TEXTS[0], PREFIXES[0]
    tokens, _, _ = alone(translator, text, prefix)
    (found,) = translator.n_best([text], 4, prefixes=[prefix])
    source = tf.constant([ids_of(translator, text)])
    for row, each in zip(tokens[0], found):
        own = kt.score_ids(translator.model, source, row[None])
        length = np.count_nonzero(row)
        penalty = ((5 + length) / 6) ** translator.model.config.alpha
        assert each.score == pytest.approx(float(own[0]) / penalty, abs=1e-4)


def test_a_compiled_search_finds_the_same(translator, compiled):
    texts, prefixes = TEXTS[:3], PREFIXES[:3]
    found = compiled.n_best(texts, 1, prefixes=prefixes)
    expected = translator.n_best(texts, 1, prefixes=prefixes)
    for one, other in zip(found, expected):
        close(one, other)
    # Without a prefix it is another graph.
    free = compiled.translate(texts[:1])
    assert not free[0].text.startswith(prefixes[0])


def words_of(translator, ids):
    """First and last word of each token; the end has none."""
    pieces = [translator.tokenizer.id_to_token(int(each)) for each in ids[:-1]]
    begun = np.cumsum([piece.startswith("\u2581") for piece in pieces])
    # A first token without a space before it begins a word, too.
    words = begun - int(pieces[0].startswith("\u2581"))
    return np.stack([[*words, -1]] * 2, axis=1)


@pytest.mark.parametrize("name", ["translator", "compiled"])
def test_alignments_are_those_of_given_translations(name, request):
    translator = request.getfixturevalue(name)
    texts, prefixes = TEXTS[:2], PREFIXES[:2]
    found = translator.align(texts, prefixes=prefixes)
    for text, prefix, translation in zip(texts, prefixes, found):
        assert translation.text.startswith(prefix)
        tokens, _, _ = alone(translator, text, prefix)
        source = tf.constant([ids_of(translator, text)])
        target = tokens[:, 0, : np.count_nonzero(tokens[0, 0])]
        attention = kt.force_align(translator.model, source, target)
        words = [words_of(translator, ids[0]) for ids in (source, target)]
        expected = word_alignment(*words, attention.numpy()[0])
        assert translation.alignment == expected
        assert expected


def test_a_translation_may_end_within_a_long_prefix(translator):
    long = "ka ba " * 400
    ((best,),) = translator.n_best(["ba ka."], 1, prefixes=[long])
    assert best.text
    assert long.startswith(best.text)
    length = len(ids_of(translator, best.text))
    assert length <= max_length(translator, "ba ka.")


def test_as_many_prefixes_as_texts(translator):
    with pytest.raises(ValueError):
        translator.n_best(TEXTS, 1, prefixes=PREFIXES[:2])
    assert translator.n_best([], 1, prefixes=[]) == []


def test_unknown_characters_are_refused(translator):
    # The vocabulary lacks "ŵ", alone or in two code points, and "q".
    for prefix, character in (
        ("ba ŵa", "ŵ"),
        ("ba w\u0302a", "w"),
        ("q", "q"),
        ("é\u0301 e\u0301 ß", "\u0301"),
        ("e\u0301 ß", "ß"),
    ):
        with pytest.raises(UnknownCharacter) as caught:
            translator.n_best(TEXTS[:2], 1, prefixes=["ba", prefix])
        assert (caught.value.index, caught.value.character) == (1, character)
        with pytest.raises(ValueError):
            translator.normalize_prefixes(["ba", prefix])


def test_translations_begin_with_normalized_prefixes(translator):
    given = ["do ri", "", " do   ri ", "e\u0301", "\uff42\uff41", "ka " * 400]
    expected = ["do ri", "", "do ri", "é", "ba", "ka " * 400]
    assert translator.normalize_prefixes(given) == expected
    assert translator.normalize_prefixes([]) == []
    for prefix, text in list(zip(given, expected))[:5]:
        ((best,),) = translator.n_best(TEXTS[:1], 1, prefixes=[prefix])
        assert best.text.startswith(text)


@settings(max_examples=50, deadline=None)
@given(st.text("bdakéà. \u0301ﬁ", max_size=12))
def test_a_normalized_prefix_has_the_same_ids(translator, prefix):
    ids = ids_of(translator, prefix)
    try:
        (normalized,) = translator.normalize_prefixes([prefix])
    except UnknownCharacter as error:
        assert 1 in ids
        assert error.character in prefix
    else:
        assert 1 not in ids
        assert (ids == ids_of(translator, normalized)).all()


def run(model, texts, folder, lines, *flags):
    path = folder / "prefixes"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    flags = [f"--prefixes={path}", *flags]
    return commands.run("export.translate", model, texts, *flags)


LINES = [prefix.encode() for prefix in PREFIXES]


def test_the_command_takes_a_prefix_a_line(model_path, translator, tmp_path):
    flags = ["--n_best=2", "--beam_size=4"]
    code, lines, err = run(model_path, TEXTS, tmp_path, LINES, *flags)
    assert (code, err) == (0, [])
    expected = [
        (str(number), each)
        for number, row in enumerate(
            translator.n_best(TEXTS, 2, prefixes=PREFIXES)
        )
        for each in row
    ]
    numbers, texts, scores = zip(*[line.split(" ||| ") for line in lines])
    assert list(numbers) == [number for number, _ in expected]
    found = [*map(Translation, texts, map(float, scores))]
    close(found, [each for _, each in expected])


def test_prefixes_that_are_spelled_otherwise_are_reported(model_path, tmp_path):
    lines = ["do  ri", "", "e\u0301 " + "ka " * 20, " mu", "ba", " ba"]
    prefixes = [line.encode() for line in lines]
    code, found, err = run(model_path, TEXTS[:6], tmp_path, prefixes)
    assert code == 0, err
    assert found[0].startswith("do ri")
    assert found[3].startswith("mu")
    for words in ("4", "line 1: 'do  ri' as 'do ri'", "ka …'", "and 1 more"):
        assert words in err[-1]


# The first line beyond the lines that are read at a time.
FAR = 130
FAR_LINES = [*[b"ba"] * (FAR - 1), "ba ŵa".encode()]


@pytest.mark.parametrize(
    ("lines", "flags", "named"),
    [
        (LINES[:3], [], ["--input", "line 4"]),
        ([*LINES, b""], [], ["--prefixes", "line 10"]),
        ([b"do", b"\xff"], [], ["Line 2 of --prefixes"]),
        (LINES, ["--prefixes=/nowhere"], ["--prefixes=/nowhere"]),
        (
            ["ba ŵa".encode(), *LINES[1:]],
            [],
            ["Line 1 of --prefixes", "U+0175"],
        ),
        (FAR_LINES, [], [f"Line {FAR} of --prefixes", "U+0175"]),
        (LINES, ["--output={}/prefixes"], ["--output", "prefixes"]),
    ],
)
def test_invalid_prefixes_are_one_line_and_2(
    model_path, tmp_path, lines, flags, named
):
    texts = [*TEXTS, *["ba ka."] * FAR][: FAR if len(lines) == FAR else 9]
    flags = [flag.format(tmp_path) for flag in flags]
    code, _, err = run(model_path, texts, tmp_path, lines, *flags)
    assert code == 2
    assert err[-1].startswith("Error: ")
    for words in named:
        assert words in err[-1]
    assert (tmp_path / "prefixes").read_bytes().splitlines() == lines
