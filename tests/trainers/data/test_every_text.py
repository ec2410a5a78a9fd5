"""Any text, from every kind of corpus to every writer of lines."""

import dataclasses
import gzip
import io
import pathlib
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from export.lines.files import DecodedLines, join_lines
from export.translators.text_ids import IdPair
from export.translators.text_translator import Translation
from tests.trainers.data.memory_corpus import MemoryCorpus, prepare
from tests.trainers.synthesis import jobs
from trainers.data import tatoeba
from trainers.data.tatoeba import TatoebaCorpus
from trainers.data.text_files import TextCorpus
from trainers.data.trees import TreeCorpus
from trainers.distillation.steps import write_mixture
from trainers.synthesis.generate import generate_pairs
from trainers.synthesis.job import synthesize
from trainers.synthesis.shards import corpus_source

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


def _files(pairs, folder, packing=""):
    for language, texts in zip(("en", "xx"), zip(*pairs)):
        lines = [text.replace("\n", "\r") + "\n" for text in texts]
        content = "".join(lines).encode()
        path = folder / f"train.{language}{packing}"
        path.write_bytes(gzip.compress(content, 0) if packing else content)
    return TextCorpus(f"text:{folder}/", "en", "xx")


def _packed(pairs, folder):
    return _files(pairs, folder, ".gz")


def _tatoeba(pairs, folder):
    corpus = TatoebaCorpus.__new__(TatoebaCorpus)
    super(TatoebaCorpus, corpus).__init__("tatoeba-en-fr", "en", "xx")
    # A line feed ends a line of fra.txt, a tab a side.
    lines = (
        "\t".join(text.translate({10: 13, 9: 13}) for text in pair)
        for pair in pairs
    )
    corpus._pairs_of = {"train": tatoeba.parse_pairs("\n".join(lines))}
    return corpus


def _words(text):
    return tuple(text.replace("\0", "").split())


@pytest.mark.parametrize(
    "open_corpus",
    [_memory, _files, _packed, _tatoeba],
)
@settings(max_examples=10, deadline=None)
@given(PAIRS)
def test_a_sentence_is_one_line_in_every_corpus(open_corpus, pairs):
    with tempfile.TemporaryDirectory() as name:
        corpus = open_corpus(pairs, pathlib.Path(name))
        found = list(corpus.pairs("train"))
    expected = [tuple(map(_words, pair)) for pair in pairs]
    expected = [pair for pair in expected if all(pair)]
    if open_corpus is _tatoeba:
        # It has each pair once.
        expected = [*dict.fromkeys(expected)]
    assert [tuple(map(_words, pair)) for pair in found] == expected
    for text in (text for pair in found for text in pair):
        assert text and text == text.strip() == join_lines(text)


class _Odd:
    """A translator whose vocabulary has all line breaks."""

    beam_size = 1

    def n_best(self, texts, n):
        return [n * [Translation(f"{BREAKS}{t}\r\n\t.", 0.0)] for t in texts]

    def lengths(self, texts):
        return [len(text) and 2 for text in texts]

    def encode_pairs(self, texts, translations):
        return [IdPair([0], [0], False) for _ in zip(texts, translations)]


def _synthesized(job, shards):
    for shard in shards:
        yield shard, generate_pairs(_Odd(), shard.lines, job.options)


def _count_lines(path):
    """The number of lines for the reader that sees most of them."""
    return len(path.read_bytes().decode().splitlines())


@settings(max_examples=15, deadline=None)
@given(PAIRS)
def test_every_writer_writes_a_line_for_each_sentence(pairs):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        _check_writers(_memory(pairs, folder), folder)


def _check_writers(corpus, folder):
    pairs = list(corpus.pairs("train"))
    sources = corpus.evaluation_set("test").sources
    prepared = prepare(folder / "data", corpus, max_unknown=1)
    assert prepared.manifest.splits["train"].num_read == len(pairs)
    assert prepared.test_set().sources == sources

    model = jobs.made_up_model(folder / "model")
    options = dataclasses.replace(jobs.OPTIONS, keep_duplicates=True)
    source = corpus_source(corpus, "train", "forward")
    synthesize(folder / "made", source, (model,), options, _synthesized)
    write_mixture(folder / "mixed", corpus, [], True)
    for name, count in (
        *(("made/train.aa", len(pairs)), ("made/train.bb", len(pairs))),
        *(("mixed/train.en", len({*pairs})), ("mixed/train.xx", len({*pairs}))),
        *(("mixed/test.en", len(sources)), ("mixed/test.xx", len(sources))),
    ):
        assert _count_lines(folder / name) == count


@settings(max_examples=30, deadline=None)
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


@given(st.lists(TEXT))
def test_standard_input_gives_a_line_for_each_line_feed(texts):
    content = "".join(f"{text}\n" for text in texts).encode()
    lines = list(DecodedLines(io.BytesIO(content)))
    assert len(lines) == content.count(b"\n")
    assert all(line == join_lines(line) for line in lines)


def test_half_a_character_is_refused():
    for text in ("a\ud800b", "\udc00"):
        with pytest.raises(InputError):
            next(iter(_memory([(text, "b")], None).pairs("train")))
