"""All corpora: any text, directions, evaluation sets and fingerprints."""

import pathlib
import tempfile

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from export.lines.files import join_lines
from tests.trainers.data.memory_corpus import MemoryCorpus
from trainers.data import open_corpus, tatoeba
from trainers.data.corpus import (
    EvaluationSet,
    describe_fingerprint_change,
    file_fingerprint,
    resolve_languages,
    text_fingerprint,
)
from trainers.data.tatoeba import TatoebaCorpus
from trainers.data.text_files import TextCorpus
from trainers.data.treebank import TreeCorpus

MEGABYTE = 1 << 20


@pytest.mark.parametrize("name", ["", "tatoeba-en-de", "file:x y", "../x"])
def test_unknown_names_are_refused(name):
    with pytest.raises(InputError, match="text:.*wmt14_translate/de-en"):
        open_corpus(name, None, None)


def test_direction_of_a_corpus():
    both = ("en", "fr")
    for languages, expected in (
        ((None, None), ("en", "fr")),
        (("fr", None), ("fr", "en")),
        ((None, "en"), ("fr", "en")),
        (("fr", "en"), ("fr", "en")),
    ):
        assert resolve_languages("x", both, *languages, both) == expected
    for *languages, default in (
        ("it", "fr", None),
        ("en", "it", None),
        ("en", "en", None),
        ("en", None, ("en", "fr")),
        (None, None, None),
    ):
        with pytest.raises(InputError, match="de, en, fr"):
            resolve_languages("x", ("de", "en", "fr"), *languages, default)


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
    scored = EvaluationSet(("a", "e"), (("A", "A2"), ("E",)))
    assert every.subset(every.scored_indices) == scored


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
    paths = [tmp_path / name for name in ("a b.en", "a.xx", "c")]
    for path in paths:
        path.write_bytes(b"abc")
    before = file_fingerprint(paths[:2])
    paths[0].write_bytes(b"abcd")
    changed = describe_fingerprint_change(before, file_fingerprint(paths))
    assert changed.endswith("differs in a b.en, c")
    assert "ab, ac" in describe_fingerprint_change("ab", "ac")


BREAKS = "\n\r\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029"
TEXT = st.text(
    st.sampled_from(f"{BREAKS}\0\t \u00a0\u3000\u200b\u200cab-é")
    | st.characters(exclude_categories=["Cs"], exclude_characters="\ufeff"),
    max_size=8,
)
# With letters, without which Tatoeba has no sentence.
PAIRS = st.lists(
    st.tuples(TEXT.map("a{}z".format), TEXT.map("b{}y".format)), max_size=5
).map(lambda pairs: [("a", "b"), *pairs, ("\n", "c"), ("d", "\u2028")])


def _memory(pairs, folder):
    rows = [(source, (target,)) for source, target in pairs]
    return MemoryCorpus({"train": rows, "test": rows})


def _files(pairs, folder):
    for language, texts in zip(("en", "xx"), zip(*pairs)):
        lines = [text.replace("\n", "\r") + "\n" for text in texts]
        content = "".join(lines).encode()
        (folder / f"train.{language}").write_bytes(content)
    return TextCorpus(f"text:{folder}/", "en", "xx")


def _tatoeba(pairs, folder):
    corpus = TatoebaCorpus.__new__(TatoebaCorpus)
    super(TatoebaCorpus, corpus).__init__("tatoeba-en-fr", "en", "xx")
    # A line feed ends a line of fra.txt, a tab a side.
    lines = (
        "\t".join(text.translate({10: 13, 9: 13}) for text in pair)
        for pair in pairs
    )
    corpus._splits = {"train": tatoeba.parse_pairs("\n".join(lines))}
    return corpus


def _words(text):
    return tuple(text.replace("\0", "").split())


@pytest.mark.parametrize("make", [_memory, _files, _tatoeba])
@settings(max_examples=10)
@given(PAIRS)
def test_a_sentence_is_one_line_in_every_corpus(make, pairs):
    with tempfile.TemporaryDirectory() as name:
        corpus = make(pairs, pathlib.Path(name))
        found = list(corpus.pairs("train"))
    expected = [tuple(map(_words, pair)) for pair in pairs]
    expected = [pair for pair in expected if all(pair)]
    if make is _tatoeba:
        # It has each pair once.
        expected = [*dict.fromkeys(expected)]
    assert [tuple(map(_words, pair)) for pair in found] == expected
    for text in (text for pair in found for text in pair):
        assert text and text == text.strip() == join_lines(text)


@settings(max_examples=20)
@given(TEXT)
def test_a_tree_has_one_line_on_both_sides(text):
    leaf = "".join(text.split()).strip("()") or "x"
    with tempfile.TemporaryDirectory() as name:
        tree = f"(S (NN {leaf}) (NN b{text.replace(chr(10), ' ')}))\n"
        pathlib.Path(name, "train.ptb").write_text(tree, "utf-8", newline="")
        try:
            corpus = TreeCorpus(f"trees:{name}/", None, None)
            # Once from the file, once from the temporary one.
            first, again = (list(corpus.pairs("train")) for _ in range(2))
        except InputError as error:
            assert len(str(error).splitlines()) == 1
            return
    assert first == again
    for side in first[0]:
        assert len(side.splitlines()) == 1 and "\t" not in side
