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
from export.parsing.word_tokenizer import WordTokenizer
from keras_transformer.config import BEGIN_ID, END_ID
from tests.export.parsing import tiny_parser

SENTENCES = ["The cell divides .", "-LRB- BMP-4 -RRB-"]
# First and last characters of some scripts.
SCRIPTS = [
    *("az", "AZ", "àþ", "αω", "ая", "את", "بي", "कह", "กฮ", "あん", "一龥"),
    *("가힣", "ሀፐ", "აჰ", "԰֏", "\U0001f300\U0001f64f", "\U00012000\U00012080"),
]
COMMON = ["the", "cell", "binds", "of", "BMP-4", "(a)"]
LONE = [
    *("(", ")", "((", ")(", "-LRB-", "-RRB-", "-LRB-)", "-NONE-", "TOP", "(S"),
    *(".", ",", "``", "''", '"', "--", "...", "[", "]", "{", "\\", "\\(", "|"),
    *("<s>", "</s>", "<unk>", "<pad>", "\u2581", "\u2581\u2581", "&amp;"),
]
# Characters that are removed from words, and others that stay in them.
REMOVED = ["\0", "\u00a0", "\u2009", "\u3000", "\u2028", "\x85", "\x1c"]
ODD = [*"\x01\x07\x7f\u200b\u200d\ufeff\u0301\ufffd"]
SPACES = [" ", "  ", "\t", " \t ", "\v", "\f", "\r "]


def _word(generator):
    kind = generator.random()
    if kind < 0.5:
        return generator.choice(LONE if kind < 0.25 else COMMON)
    first, last = map(ord, generator.choice(SCRIPTS))
    letters = [
        chr(generator.randint(first, last))
        for _ in range(generator.randint(1, 9))
    ]
    if generator.random() < 0.2:
        position = generator.randint(0, len(letters))
        letters.insert(position, generator.choice([*REMOVED, *ODD]))
    return "".join(letters)


def _sentence(generator, count):
    """Returns a sentence, and its words as trees write them."""
    words = [_word(generator) for _ in range(count)]
    text = "".join(word + generator.choice(SPACES) for word in words)
    table = str.maketrans(dict.fromkeys(REMOVED, "") | {"(": "-LRB-"})
    table |= str.maketrans({")": "-RRB-"})
    return text, [word.translate(table) for word in words]


def test_answers_are_trees_over_exactly_the_words(parser_path):
    generator = random.Random(4)
    lengths = [*range(1, 31)] * 2 + [60, 200]
    texts, expected = zip(*[_sentence(generator, each) for each in lengths])
    # Few and large batches, sorted by length.
    parser = Parser.from_directory(parser_path, batch_tokens=8192)
    for parses, words in zip(parser.parse(texts, 4), expected):
        assert 1 <= len(parses) <= 4
        for parse in parses:
            assert tree_words(parse.tree) == words
            tags = {tag for _, tag in parse.tree.pos()}
            assert tags <= set(parser.symbols.tags)
            assert read_tree(parse.text) == parse.tree
        assert len({parse.text for parse in parses}) == len(parses)


def _copy(path, folder, change):
    shutil.copytree(path, folder)
    directory = ModelDirectory(folder)
    change(directory)
    return directory.path


def _softmax(logits):
    logits = np.asarray(logits, "float64")
    exponents = np.exp(logits - logits.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


def test_several_parse_by_the_mean_of_their_probabilities(
    parser_path, tmp_path
):
    def add_noise(directory):
        model, generator = directory.load_model(), np.random.default_rng(2)
        for weight in model.trainable_variables:
            weight.assign_add(generator.normal(0, 0.1, weight.shape))
        directory.write_weights(model)

    paths = [parser_path, _copy(parser_path, tmp_path / "other", add_noise)]
    parser = Parser.from_directory(*paths, ensemble_mean="probabilities")
    models = [ModelDirectory(each).load_model() for each in paths]
    tokenizer = WordTokenizer(ModelDirectory(parser_path).read_vocabulary())
    for sentence, (parse,) in zip(SENTENCES, parser.parse(SENTENCES)):
        ids = parser.symbols.encode(linearize(parse.tree))
        (source,) = tokenizer.encode([sentence])
        inputs = {
            "source": source[None],
            "target": np.array([[BEGIN_ID, *ids]], np.int32),
        }
        each = [_softmax(model(inputs))[0] for model in models]
        chosen = np.mean(each, axis=0)[range(len(ids) + 1), [*ids, END_ID]]
        # Wu et al. 2016, formula 14.
        penalty = ((5 + len(ids) + 1) / 6) ** parser.model.config.alpha
        np.testing.assert_allclose(
            parse.score, np.log(chosen).sum() / penalty, rtol=1e-4
        )


def test_directories_that_do_not_fit_are_refused(parser_path, tmp_path):
    def change_symbols(directory):
        trees = tiny_parser.trees()[:50]
        directory.write_symbols(SymbolVocabulary.from_trees(trees).to_json())

    def change_vocabulary(directory):
        directory.write_vocabulary(directory.read_vocabulary() + b"\0")

    other, another, damaged = (
        _copy(parser_path, tmp_path / str(number), change)
        for number, change in enumerate(
            [change_symbols, change_vocabulary, lambda d: d.write_symbols("[")]
        )
    )
    for name, paths, mean in (
        ("symbols of trees", (parser_path, other), None),
        ("vocabularies", (parser_path, another), None),
        ("symbols.json", (damaged,), None),
        ("ids", (other,), None),
        ("several models", (parser_path,), "probabilities"),
    ):
        with pytest.raises(InputError, match=name):
            Parser.from_directory(*paths, ensemble_mean=mean)
    parser = Parser.from_directory(parser_path)
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
