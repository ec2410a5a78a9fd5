"""What all corpora share: directions, evaluation sets, fingerprints."""

import pytest
import sacrebleu

from export.common.errors import InputError
from trainers.data import EvaluationSet, open_corpus
from trainers.data.corpus import (
    describe_fingerprint_change,
    file_fingerprint,
    resolve_languages,
    text_fingerprint,
)

MEGABYTE = 1 << 20


@pytest.mark.parametrize("name", ["", "tatoeba-en-de", "file:x y", "../x"])
def test_unknown_names_are_refused(name):
    with pytest.raises(InputError, match="text:.*wmt14_translate/de-en"):
        open_corpus(name, None, None)


def test_direction_of_a_corpus():
    both = ("en", "fr")
    for given, expected in (
        ((None, None), ("en", "fr")),
        (("fr", None), ("fr", "en")),
        ((None, "en"), ("fr", "en")),
        (("fr", "en"), ("fr", "en")),
    ):
        assert resolve_languages("x", both, *given, both) == expected
    for *given, default in (
        ("it", "fr", None),
        ("en", "it", None),
        ("en", "en", None),
        ("en", None, ("en", "fr")),
        (None, None, None),
    ):
        with pytest.raises(InputError, match="de, en, fr"):
            resolve_languages("x", ("de", "en", "fr"), *given, default)


def test_sacrebleu_scores_each_sentence_against_its_own_references():
    evaluation_set = EvaluationSet(
        sources=("s", "t"),
        references=(
            ("the cat sat on the mat", "a cat was sitting on the mat"),
            ("there is a dog in the house",),
        ),
    )
    streams = evaluation_set.reference_streams()
    assert streams == [
        ["the cat sat on the mat", "there is a dog in the house"],
        ["a cat was sitting on the mat", None],
    ]
    # An empty second reference would be nearer to a hypothesis of one word.
    for last, is_right in (
        ("there is a dog in the house", True),
        ("dog", False),
    ):
        found = sacrebleu.corpus_bleu(
            ["a cat was sitting on the mat", last], streams
        )
        assert found.ref_len == 7 + 7
        assert (found.score == pytest.approx(100)) == is_right
    assert EvaluationSet((), ()).reference_streams() == []


def test_sentences_that_lack_a_side_are_not_scored():
    every = EvaluationSet(
        ("a", "", "c", " ", "e"), (("A", "A2"), ("B",), (), ("D",), ("E",))
    )
    assert every.scored_indices == [0, 4]
    assert every.subset(every.scored_indices) == EvaluationSet(
        ("a", "e"), (("A", "A2"), ("E",))
    )
    for sources, references in (
        (("a",), ()),
        (("a", "b"), (("A",), ("B", " "))),
    ):
        with pytest.raises(ValueError):
            EvaluationSet(sources, references)


def test_fingerprints_change_with_content_names_and_order(tmp_path):
    first, same, other = tmp_path / "a/x", tmp_path / "b/x", tmp_path / "a/y"
    content = bytearray(3 * MEGABYTE)
    for path in (first, same, other):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    before = file_fingerprint([first])
    assert before == file_fingerprint([same])
    assert before != file_fingerprint([other])
    assert file_fingerprint([first, other]) != file_fingerprint([other, first])
    for place in (0, MEGABYTE - 1, 2 * MEGABYTE, -1):
        changed = bytearray(content)
        changed[place] = 1
        first.write_bytes(changed)
        assert file_fingerprint([first]) != before
    first.write_bytes(content + b"\0")
    assert file_fingerprint([first]) != before
    assert text_fingerprint("ab", "c") != text_fingerprint("a", "bc")
    with pytest.raises(InputError, match="gone"):
        file_fingerprint([tmp_path / "gone"])


def test_a_change_is_described_by_file(tmp_path):
    paths = [tmp_path / name for name in ("a.en", "a.xx", "c")]
    for path in paths:
        path.write_bytes(b"abc")
    before = file_fingerprint(paths[:2])
    paths[0].write_bytes(b"abcd")
    changed = describe_fingerprint_change(before, file_fingerprint(paths))
    assert "a.en has 4 bytes" in changed and "c is new" in changed
    assert "a.xx" not in changed
    missing = describe_fingerprint_change(before, file_fingerprint(paths[1:2]))
    assert missing == "a.en is missing"
    assert "was ab and is ac" in describe_fingerprint_change("ab", "ac")
