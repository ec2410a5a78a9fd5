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
def test_an_unknown_name_lists_the_kinds(name):
    with pytest.raises(InputError) as caught:
        open_corpus(name, None, None)
    for kind in ("tatoeba-en-fr", "text:", "trees:", "wmt14_translate/de-en"):
        assert kind in str(caught.value)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (None, None, ("en", "fr")),
        ("en", None, ("en", "fr")),
        ("fr", None, ("fr", "en")),
        (None, "en", ("fr", "en")),
        (None, "fr", ("en", "fr")),
        ("fr", "en", ("fr", "en")),
    ],
)
def test_the_direction_of_two_languages(source, target, expected):
    both = ("en", "fr")
    assert resolve_languages("x", both, source, target, both) == expected


@pytest.mark.parametrize(
    ("source", "target", "default", "message"),
    [
        ("it", "fr", None, "'it'.*de, en, fr"),
        ("en", "it", None, "'it'.*de, en, fr"),
        ("en", "en", None, "both 'en'.*de, en, fr"),
        ("en", None, ("en", "fr"), "source and a target.*de, en, fr"),
        (None, None, None, "source and a target.*de, en, fr"),
    ],
)
def test_directions_that_are_refused(source, target, default, message):
    with pytest.raises(InputError, match=message):
        resolve_languages("x", ("de", "en", "fr"), source, target, default)


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
    metric = sacrebleu.BLEU()
    right = metric.corpus_score(
        ["a cat was sitting on the mat", "there is a dog in the house"], streams
    )
    assert right.score == pytest.approx(100)
    assert "nrefs:var" in str(metric.get_signature())
    # An empty second reference would be nearer to a hypothesis of one word,
    # and the brevity penalty would be gone.
    short = sacrebleu.corpus_bleu(
        ["a cat was sitting on the mat", "dog"], streams
    )
    assert right.ref_len == short.ref_len == 7 + 7
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
        ((), (("A",),)),
        (("a", "b"), (("A",), ("B", " "))),
    ):
        with pytest.raises(ValueError):
            EvaluationSet(sources, references)


@pytest.mark.parametrize("place", [0, MEGABYTE - 1, 2 * MEGABYTE, -1, None])
def test_a_changed_byte_at_either_end_or_size_changes_it(tmp_path, place):
    path = tmp_path / "data"
    data = bytearray(3 * MEGABYTE)
    path.write_bytes(data)
    before = file_fingerprint([path])
    if place is None:
        data += b"\0"
    else:
        data[place] = 1
    path.write_bytes(data)
    assert file_fingerprint([path]) != before


def test_a_fingerprint_is_of_names_and_order_not_folders(tmp_path):
    first, second = tmp_path / "a" / "x", tmp_path / "b" / "x"
    other = tmp_path / "a" / "y"
    for path in (first, second, other):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"abc")
    assert file_fingerprint([first]) == file_fingerprint([second])
    assert file_fingerprint([first]) != file_fingerprint([other])
    assert file_fingerprint([first, other]) != file_fingerprint([other, first])
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
    was, now = changed.split(" and is ")
    assert "was a.en 3 " in was and "a.xx" not in changed
    assert now.startswith("a.en 4 ") and "; c 3 " in now
    gone = describe_fingerprint_change(before, file_fingerprint(paths[1:2]))
    assert "was a.en 3 " in gone and gone.endswith("is shorter")
    assert "was ab and is ac" in describe_fingerprint_change("ab", "ac")
