"""Any text, from every kind of corpus to every writer of lines."""

import contextlib
import dataclasses
import gzip
import io
import pathlib
import tempfile
import types

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from export.lines.files import DecodedLines, join_lines
from export.lines.formats import best_text, n_best_list
from export.lines.streams import answer_lines
from export.translators.text_ids import IdPair
from export.translators.text_translator import Translation
from tests.trainers.data.memory_corpus import MemoryCorpus, prepare
from tests.trainers.synthesis import jobs
from trainers import evaluate
from trainers.data import tatoeba
from trainers.data.tatoeba import TatoebaCorpus
from trainers.data.text_files import TextCorpus
from trainers.data.tfds_corpus import TfdsCorpus
from trainers.data.trees import TreeCorpus
from trainers.distillation.steps import write_mixture
from trainers.synthesis.generate import generate_pairs
from trainers.synthesis.job import synthesize
from trainers.synthesis.shards import corpus_source, text_source

tfds = pytest.importorskip("tensorflow_datasets")

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
    del folder
    rows = [(source, (target,)) for source, target in pairs]
    return MemoryCorpus({"train": rows, "test": rows})


def _files(pairs, folder, packing=""):
    for language, texts in zip(("en", "xx"), zip(*pairs)):
        lines = [text.replace("\n", "\r") + "\n" for text in texts]
        content = "".join(lines).encode()
        content = gzip.compress(content, 0) if packing else content
        for split in ("train", "test"):
            path = folder / f"{split}.{language}{packing}"
            path.write_bytes(content)
    return TextCorpus(f"text:{folder}/", "en", "xx")


def _packed(pairs, folder):
    return _files(pairs, folder, ".gz")


def _tfds(data, feature):
    """A TfdsCorpus of a builder that is not there."""
    corpus = TfdsCorpus.__new__(TfdsCorpus)
    super(TfdsCorpus, corpus).__init__("made_up", "en", "xx")
    corpus._tfds, corpus._field, corpus._feature = tfds, None, feature
    corpus._builder = types.SimpleNamespace(
        as_dataset=lambda **_: data,
        info=types.SimpleNamespace(splits={"train", "test"}),
    )
    corpus.fingerprint = lambda: "f"
    return corpus


def _translations(pairs, folder):
    del folder
    sides = zip(("en", "xx"), map(list, zip(*pairs)))
    data = tf.data.Dataset.from_tensor_slices(dict(sides))
    return _tfds(data, tfds.features.Translation(["en", "xx"]))


def _variable(pairs, folder):
    del folder
    data = tf.data.Dataset.from_tensor_slices(
        {
            "language": [["en", "xx"]] * len(pairs),
            "translation": [list(pair) for pair in pairs],
        }
    )
    feature = tfds.features.TranslationVariableLanguages(["en", "xx"])
    return _tfds(data, feature)


def _tatoeba(pairs, folder):
    del folder
    lines = (
        "\t".join(text.replace("\n", "\r").replace("\t", "\r") for text in pair)
        for pair in pairs
    )
    corpus = TatoebaCorpus.__new__(TatoebaCorpus)
    super(TatoebaCorpus, corpus).__init__("tatoeba-en-fr", "en", "xx")
    distinct = tatoeba.parse_pairs("\n".join(lines))
    corpus._pairs_of = {"train": distinct, "test": distinct}
    return corpus


CORPORA = [_memory, _files, _packed, _translations, _variable, _tatoeba]


def _lines(path):
    """The lines of a file for the reader that sees most of them."""
    return path.read_bytes().decode().splitlines()


class _Odd:
    """A translator whose vocabulary has all line breaks."""

    beam_size = 1

    def n_best(self, texts, n):
        return [n * [Translation(f"{BREAKS}{t}\r\n\t.", 0.0)] for t in texts]

    def lengths(self, texts):
        return [len(text) and 2 for text in texts]

    def given_ids(self, texts, translations):
        return [IdPair([0], [0], False) for _ in zip(texts, translations)]


def _synthesized(job, shards):
    for shard in shards:
        yield shard, generate_pairs(_Odd(), shard.lines, job.options)


def _written(path, texts):
    path.write_text("".join(f"{t}\n" for t in texts), "utf-8", newline="")
    return path


def _sides(folder, split, codes):
    return [_lines(folder / f"{split}.{code}") for code in codes]


def _check_writers(corpus, folder, patch):
    """Every writer gives a line for each sentence that it was given."""
    pairs = list(corpus.pairs("train"))
    sources = corpus.evaluation_set("test").sources
    prepared = prepare(folder / "data", corpus, max_unknown=1)
    assert prepared.manifest.splits["train"].num_read == len(pairs)
    assert prepared.test_set().sources == sources

    given = _written(folder / "input", sources)
    model = jobs.made_up_model(folder / "model")
    options = dataclasses.replace(jobs.OPTIONS, keep_duplicates=True)
    for name, source, count in (
        ("corpus", corpus_source(corpus, "train", "forward"), len(pairs)),
        ("text", text_source(given), len(list(filter(None, sources)))),
    ):
        folder_of_pairs = folder / "made" / name
        synthesize(folder_of_pairs, source, (model,), options, _synthesized)
        made = _sides(folder_of_pairs, "train", ("aa", "bb"))
        assert [*map(len, made)] == [count, count]

    write_mixture(folder / "mixed", corpus, [], True)
    distinct = len({*pairs})
    for split, count in (("train", distinct), ("test", len(sources))):
        mixed = _sides(folder / "mixed", split, ("en", "xx"))
        assert [*map(len, mixed)] == [count, count]

    answers = _Odd().n_best(sources, 1)
    output = folder / "evaluated"
    patch.setattr(evaluate, "FLAGS", types.SimpleNamespace(output=output))
    evaluate._write_output([best.text for (best,) in answers])
    assert len(_lines(output)) == len(sources)

    def ask(texts, on_progress):
        del on_progress
        return _Odd().n_best(texts, 1)

    for form in (best_text, n_best_list):
        output = folder / form.__name__
        with contextlib.redirect_stderr(io.StringIO()):
            answer_lines("Translating", given, output, ask, form)
        assert len(_lines(output)) == len(sources)


@pytest.mark.parametrize("open_corpus", CORPORA)
@settings(max_examples=6, deadline=None)
@given(PAIRS)
def test_a_sentence_is_one_line_everywhere(open_corpus, pairs):
    with (
        tempfile.TemporaryDirectory() as name,
        pytest.MonkeyPatch.context() as patch,
    ):
        folder = pathlib.Path(name)
        corpus = open_corpus(pairs, folder)
        found = list(corpus.pairs("train"))
        expected = [tuple(map(_words, pair)) for pair in pairs]
        expected = [pair for pair in expected if all(pair)]
        if open_corpus is _tatoeba:
            # It has each pair once.
            expected = [*dict.fromkeys(expected)]
        assert [tuple(map(_words, pair)) for pair in found] == expected
        for text in (text for pair in found for text in pair):
            assert text and text == text.strip() == join_lines(text)
        _check_writers(corpus, folder, patch)


def _words(text):
    return tuple(text.replace("\0", "").split())


@settings(max_examples=30, deadline=None)
@given(TEXT)
def test_a_tree_has_one_line_on_both_sides(text):
    leaf = "".join(text.split()).strip("()") or "x"
    with tempfile.TemporaryDirectory() as name:
        tree = f"(S (NN {leaf}) (NN b{text.replace(chr(10), ' ')}))\n"
        pathlib.Path(name, "train.ptb").write_text(tree, "utf-8", newline="")
        try:
            corpus = TreeCorpus(f"trees:{name}/", None, None)
            # Once from the file, once from what was kept.
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


@pytest.mark.parametrize("text", ["a\ud800b", "\udc00"])
def test_half_a_character_in_memory_is_refused(text):
    corpus = _memory([(text, "b")], None)
    for read in (corpus.pairs, corpus.evaluation_set):
        with pytest.raises(InputError, match="half of a character"):
            next(iter(read("train")))


@pytest.mark.parametrize("open_corpus", [_translations, _variable])
def test_bytes_that_are_not_utf8_are_refused(open_corpus):
    corpus = open_corpus([(b"caf\xe9", b"b")], None)
    with pytest.raises(InputError, match="cannot be read"):
        list(corpus.pairs("train"))
