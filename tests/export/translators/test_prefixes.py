"""Translations that begin with what is given: in Python and as a command."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_transformer as kt
from export.translators.text_ids import UnknownCharacter
from export.translators.text_translator import Translation
from export.translators.translator import Translator
from export.translators.word_alignment import word_alignment
from tests import made_up_text
from tests.export import commands
from tests.export.translators.test_translator import close

TEXTS = [*made_up_text.sentences()[:7], "", "ba ka."]
# None begins as its translation would.
PREFIXES = ["do ri", "", "mu", "ka ba", "", "ri", "ba", "do", ""]


@pytest.fixture(scope="module")
def prefixed(translator):
    return Translator(translator.model, translator.tokenizer, batch_tokens=64)


def ids_of(translator, text):
    return translator.tokenizer.encode([text])[0]


def longest(translator, text):
    """The most ids that a translation may have, the end id counted."""
    extra = translator.model.config.max_output_extra
    return len(ids_of(translator, text)) - 1 + extra


def alone(translator, text, prefix):
    """The search run eagerly, in loops of fixed shapes."""
    source = tf.constant([ids_of(translator, text)])
    room = longest(translator, text)
    constraints = kt.Constraints(
        max_lengths=[room],
        min_lengths=[2],
        prefix=[ids_of(translator, prefix)[:-1]] if prefix else (),
    )
    return kt.translate_ids(translator.model, source, room, constraints)


def test_each_is_that_of_the_search_alone(prefixed):
    found = prefixed.n_best(TEXTS, 4, prefixes=PREFIXES)
    assert found[7] == [Translation("", 0.0)]
    for row, text, prefix in list(zip(found, TEXTS, PREFIXES))[:4]:
        tokens, scores, _ = alone(prefixed, text, prefix)
        forced = ids_of(prefixed, prefix)[:-1]
        assert (tokens.numpy()[0, :, : len(forced)] == forced).all()
        decoded = prefixed.tokenizer.decode(tokens[0])
        close(row, [*map(Translation, decoded, scores.numpy()[0].tolist())])


def test_they_are_others_than_without(prefixed):
    """Or a prefix that is not looked at would pass as well."""
    found = prefixed.n_best(TEXTS, 1, prefixes=PREFIXES)
    free = prefixed.translate(TEXTS)
    for (best,), text, prefix, other in zip(found, TEXTS, PREFIXES, free):
        if text and prefix:
            assert best.text.startswith(prefix)
            assert not other.text.startswith(prefix)
        else:
            close([best], [other])


def test_scores_are_the_models_own(prefixed):
    (text,), (prefix,) = TEXTS[:1], PREFIXES[:1]
    tokens, _, _ = alone(prefixed, text, prefix)
    (found,) = prefixed.n_best([text], 4, prefixes=[prefix])
    source = tf.constant([ids_of(prefixed, text)])
    for row, each in zip(tokens[0], found):
        own = kt.score_ids(prefixed.model, source, row[None])
        length = np.count_nonzero(row)
        penalty = ((5 + length) / 6) ** prefixed.model.config.alpha
        assert each.score == pytest.approx(float(own[0]) / penalty, abs=1e-4)


@pytest.fixture(scope="module")
def compiled(translator):
    return Translator(translator.model, translator.tokenizer, compiled=True)


def test_a_compiled_search_finds_the_same(prefixed, compiled):
    texts, prefixes = TEXTS[:3], PREFIXES[:3]
    found = compiled.n_best(texts, 1, prefixes=prefixes)
    expected = prefixed.n_best(texts, 1, prefixes=prefixes)
    for one, other in zip(found, expected):
        close(one, other)
    # Without a prefix it is another search, which must not be this one's.
    free = compiled.translate(texts[:1])
    assert not free[0].text.startswith(prefixes[0])


def words_of(translator, ids):
    """First and last word of each piece; the end is of none."""
    pieces = [translator.tokenizer.id_to_piece(int(each)) for each in ids[:-1]]
    begun = np.cumsum([piece.startswith("\u2581") for piece in pieces])
    # A first piece without a space before it begins a word, too.
    words = begun - int(pieces[0].startswith("\u2581"))
    return np.stack([[*words, -1]] * 2, axis=1)


@pytest.mark.parametrize("name", ["prefixed", "compiled"])
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


def test_a_prefix_longer_than_a_translation_may_be_ends_on_the_way(prefixed):
    ((best,),) = prefixed.n_best(["ba ka."], 1, prefixes=["ka ba " * 400])
    assert best.text
    assert ("ka ba " * 400).startswith(best.text)
    assert len(ids_of(prefixed, best.text)) <= longest(prefixed, "ba ka.")


def test_as_many_prefixes_as_texts(prefixed):
    with pytest.raises(ValueError):
        prefixed.n_best(TEXTS, 1, prefixes=PREFIXES[:2])
    assert prefixed.n_best([], 1, prefixes=[]) == []


def test_a_character_without_a_piece_is_refused(prefixed):
    # Of "ŵ" there is none, alone or in two code points; "q" is no consonant.
    for prefix, character in (
        ("ba ŵa", "ŵ"),
        ("ba w\u0302a", "w"),
        ("q", "q"),
        ("é\u0301 e\u0301 ß", "\u0301"),
        ("e\u0301 ß", "ß"),
    ):
        with pytest.raises(UnknownCharacter) as caught:
            prefixed.n_best(TEXTS[:2], 1, prefixes=["ba", prefix])
        assert (caught.value.place, caught.value.character) == (1, character)
        assert f"U+{ord(character):04X}" in str(caught.value)
        with pytest.raises(ValueError):
            prefixed.as_spelt(["ba", prefix])


def test_every_prefix_is_begun_with_as_it_is_spelt(prefixed):
    given = ["do ri", "", " do   ri ", "e\u0301", "\uff42\uff41", "ka " * 400]
    spelt = ["do ri", "", "do ri", "é", "ba", "ka " * 400]
    assert prefixed.as_spelt(given) == spelt
    assert prefixed.as_spelt(["", ""]) == ["", ""]
    assert prefixed.as_spelt([]) == []
    for prefix, text in list(zip(given, spelt))[:5]:
        ((best,),) = prefixed.n_best(TEXTS[:1], 1, prefixes=[prefix])
        assert best.text.startswith(text)


@settings(max_examples=50, deadline=None)
@given(st.text("bdakéà. \u0301ﬁ", max_size=12))
def test_what_is_said_of_a_prefix_is_what_its_ids_are(prefixed, prefix):
    ids = ids_of(prefixed, prefix)
    try:
        (spelt,) = prefixed.as_spelt([prefix])
    except UnknownCharacter as error:
        assert 1 in ids
        assert error.character in prefix
    else:
        assert 1 not in ids
        assert (ids == ids_of(prefixed, spelt)).all()


def run(model, texts, folder, lines, *flags):
    path = folder / "prefixes"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    flags = [f"--prefixes={path}", *flags]
    return commands.run("export.translate", model, texts, *flags)


LINES = [prefix.encode() for prefix in PREFIXES]


def test_the_command_takes_a_prefix_a_line(model_path, prefixed, tmp_path):
    flags = ["--n_best=2", "--beam_size=4"]
    code, lines, err = run(model_path, TEXTS, tmp_path, LINES, *flags)
    assert code == 0, err
    assert not any("spells" in line for line in err)
    expected = [
        (str(number), each)
        for number, row in enumerate(
            prefixed.n_best(TEXTS, 2, prefixes=PREFIXES)
        )
        for each in row
    ]
    numbers, texts, scores = zip(*[line.split(" ||| ") for line in lines])
    assert list(numbers) == [number for number, _ in expected]
    found = [*map(Translation, texts, map(float, scores))]
    close(found, [each for _, each in expected])


def test_prefixes_that_are_spelt_otherwise_are_told(model_path, tmp_path):
    lines = ["do  ri", "", "e\u0301 " + "ka " * 20, " mu", "ba"]
    prefixes = [line.encode() for line in lines]
    code, found, err = run(model_path, TEXTS[:5], tmp_path, prefixes)
    assert code == 0, err
    assert found[0].startswith("do ri")
    assert found[3].startswith("mu")
    assert err[-1] == (
        "Taken as the vocabulary spells them: 3 of the prefixes (line 1: "
        "'do  ri' as 'do ri', line 3: 'e\u0301 ka ka ka ka ka ka ka ka ka …' "
        "as 'é ka ka ka ka ka ka ka ka ka k…', line 4: ' mu' as 'mu')."
    )


def test_of_many_that_are_spelt_otherwise_a_few_are_told(model_path, tmp_path):
    code, _, err = run(model_path, TEXTS[:5], tmp_path, [b" ba"] * 5)
    assert code == 0, err
    assert "5 of the prefixes (line 1: ' ba' as 'ba', line 2" in err[-1]
    assert err[-1].endswith(", line 3: ' ba' as 'ba' and 2 more).")


# The first line beyond the lines that are read at a time, and its prefix.
FAR = 130
KNOWN = [b"ba"] * FAR


@pytest.mark.parametrize("line", [1, FAR])
def test_the_line_of_an_unknown_character_is_named(model_path, tmp_path, line):
    prefixes = [*KNOWN]
    prefixes[line - 1] = "ba ŵa".encode()
    code, _, err = run(model_path, ["ba ka."] * FAR, tmp_path, prefixes)
    assert code == 2
    assert err[-1] == (
        f"Error: Line {line} of --prefixes has 'ŵ' (U+0175), of which the "
        "model's vocabulary has no piece; leave it out, or write it otherwise."
    )


def test_prefixes_go_with_alignments_and_a_compiled_search(
    model_path, prefixed, tmp_path
):
    flags = ["--compiled", "--alignments"]
    code, lines, err = run(model_path, TEXTS[:1], tmp_path, LINES[:1], *flags)
    assert code == 0, err
    (expected,) = prefixed.align(TEXTS[:1], prefixes=PREFIXES[:1])
    links = " ".join(f"{a}-{b}" for a, b in expected.alignment)
    assert lines == [f"{expected.text}\t{links}"]


@pytest.mark.parametrize(
    ("lines", "flags", "words"),
    [
        (LINES[:3], [], "--input has a line 4 and the other file has not"),
        ([*LINES, b""], [], "--prefixes has a line 10 and the other file"),
        ([b"do", b"\xff"], [], "Line 2 of --prefixes is not UTF-8"),
        (LINES, ["--prefixes=/nowhere"], "--prefixes=/nowhere cannot be read"),
    ],
)
def test_what_cannot_be_honoured_is_one_line_and_2(
    model_path, tmp_path, lines, flags, words
):
    code, _, err = run(model_path, TEXTS, tmp_path, lines, *flags)
    assert code == 2
    assert err[-1].startswith("Error: ")
    assert words in err[-1]


def test_the_output_is_not_the_file_of_prefixes(model_path, tmp_path):
    flags = [f"--output={tmp_path / 'prefixes'}"]
    code, _, err = run(model_path, TEXTS, tmp_path, LINES, *flags)
    assert code == 2
    assert "is also what is read" in err[-1]
    assert (tmp_path / "prefixes").read_bytes().splitlines() == LINES
