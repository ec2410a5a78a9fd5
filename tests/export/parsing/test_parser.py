"""Parsers with random weights: only the search's grammar makes trees."""

import random
import shutil

import numpy as np
import pytest

from export.common.errors import InputError
from export.model_directory import ModelDirectory
from export.parsing.linearization import SymbolVocabulary, linearize
from export.parsing.parser import MAX_SOURCE_IDS, Parser
from export.parsing.trees import read_tree, tree_words
from export.parsing.word_tokenizer import split_at_spaces
from keras_transformer.config import BEGIN_ID, END_ID
from tests.export.parsing import tiny_parser

SENTENCES = ["The cell divides .", "-LRB- BMP-4 -RRB-"]
WORDS = [
    *("the", "cell", "binds", "BMP-4", "(a)", "(", ")", "-LRB-", "TOP", "(S"),
    *("\\(", "|", '"', "</s>", "<unk>", "\u2581", "\u6f22\u5b57", "\U0001f600"),
    *("a\u200bb", "e\u0301", "\x01", "\ufffd", "x\u2009y\0"),
]


@pytest.fixture(name="parser", scope="module")
def fixture_parser(parser_path):
    return Parser.from_directory(parser_path)


def test_answers_are_trees_over_exactly_the_words(parser_path):
    generator = random.Random(4)
    given = [generator.choices(WORDS, k=n) for n in [*range(1, 31), 100]]
    # Few and large batches, sorted by length.
    parser = Parser.from_directory(parser_path, batch_tokens=8192)
    texts = [" \t".join(words) for words in given]
    for parses, text in zip(parser.parse(texts, 4), texts):
        assert 1 <= len(parses) <= 4
        for parse in parses:
            assert tree_words(parse.tree) == split_at_spaces(text)
            tags = {tag for _, tag in parse.tree.pos()}
            assert tags <= set(parser.symbols.tags)
            assert read_tree(parse.text) == parse.tree
        assert len({parse.text for parse in parses}) == len(parses)


def test_scores_are_those_of_the_model(parser):
    for sentence, (parse,) in zip(SENTENCES, parser.parse(SENTENCES)):
        ids = parser.symbols.encode(linearize(parse.tree))
        (source,) = parser.tokenizer.encode([sentence])
        target = np.array([[BEGIN_ID, *ids]], np.int32)
        logits = parser.model({"source": source[None], "target": target})
        logits = np.asarray(logits[0], "float64")
        normal = np.log(np.exp(logits).sum(axis=-1))
        chosen = logits[range(len(ids) + 1), [*ids, END_ID]] - normal
        # Wu et al. 2016, formula 14.
        penalty = ((5 + len(ids) + 1) / 6) ** parser.model.config.alpha
        np.testing.assert_allclose(
            parse.score, chosen.sum() / penalty, rtol=1e-4
        )


def test_damaged_weights_are_one_clear_error(parser):
    embeddings = parser.model.target_embedding.embeddings
    values = embeddings.numpy()
    embeddings.assign(np.full(embeddings.shape, np.nan, "float32"))
    with pytest.raises(InputError, match="weights"):
        parser.parse(["", *SENTENCES])
    embeddings.assign(values)


def test_directories_that_do_not_fit_are_refused(parser, parser_path, tmp_path):
    def change_symbols(directory):
        trees = tiny_parser.trees()[:50]
        directory.write_symbols(SymbolVocabulary.from_trees(trees).to_json())

    def change_vocabulary(directory):
        directory.write_vocabulary(directory.read_vocabulary() + b"\0")

    other, another, damaged = (tmp_path / each for each in "abc")
    for path, change in (
        (other, change_symbols),
        (another, change_vocabulary),
        (damaged, lambda directory: directory.write_symbols("[")),
    ):
        shutil.copytree(parser_path, path)
        change(ModelDirectory(path))
    for name, paths, mean in (
        ("symbols of trees", (parser_path, other), None),
        ("vocabularies", (parser_path, another), None),
        ("symbols.json", (damaged,), None),
        ("ids", (other,), None),
        ("several models", (parser_path,), "probabilities"),
    ):
        with pytest.raises(InputError, match=name):
            Parser.from_directory(*paths, ensemble_mean=mean)
    with pytest.raises(InputError, match="4,096 words.*a b a b"):
        parser.parse(["x", "a b " * MAX_SOURCE_IDS])


def test_learned_positions_bound_a_sentence(tmp_path):
    learned = {"positions": "learned", "max_positions": 40}
    first_ids = {"first_source_word_id": 0, "first_target_word_id": 0}
    tiny_parser.write(tmp_path, **learned, **first_ids)
    parser = Parser.from_directory(tmp_path)
    # A tree over 9 words has tens of symbols where there is room.
    (parse,), (short,) = parser.parse([" ".join("abcdefghi"), "a"])
    assert tree_words(parse.tree) == list("abcdefghi")
    assert len(linearize(parse.tree)) < 40
    assert tree_words(short.tree) == ["a"]
    with pytest.raises(InputError, match="at most 40 "):
        parser.parse([" ".join(["a"] * 38)])
