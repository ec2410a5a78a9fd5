"""Whatever the words, and whatever the model: trees over exactly these words.

The model has learned nothing, so that only the search's grammar makes its
answers trees.
"""

import random
import unicodedata

import pytest

from export.parsing.parser import Parser
from export.parsing.trees import read_tree, tags, words
from tests.export.parsing import tiny_parser

# First and last characters of some scripts.
SCRIPTS = [
    *("az", "AZ", "àþ", "αω", "ая", "את", "بي", "कह", "กฮ", "あん", "一龥"),
    *("가힣", "ሀፐ", "აჰ", "԰֏", "\U0001f300\U0001f64f", "\U00012000\U00012080"),
]
LONE = [
    *("(", ")", "((", ")(", "-LRB-", "-RRB-", "-LRB-)", "-NONE-", "TOP", "(S"),
    *(".", ",", "``", "''", '"', "--", "...", "[", "]", "{", "\\", "\\(", "|"),
    *("<s>", "</s>", "<unk>", "<pad>", "\u2581", "\u2581\u2581", "&amp;"),
]
# What is left out of words, and what stays in them.
DROPPED = ["\0", "\u00a0", "\u2009", "\u3000", "\u2028", "\x85", "\x1c"]
KEPT = [
    "\x01",
    "\x07",
    "\x7f",
    "\u200b",
    "\u200d",
    "\ufeff",
    "\u0301",
    "\ufffd",
]
SPACES = [" ", "  ", "\t", " \t ", "\v", "\f", "\r "]


def _word(generator):
    kind = generator.random()
    if kind < 0.25:
        return generator.choice(LONE)
    if kind < 0.5:
        return generator.choice(["the", "cell", "binds", "of", "BMP-4", "(a)"])
    first, last = map(ord, generator.choice(SCRIPTS))
    letters = [
        chr(generator.randint(first, last))
        for _ in range(generator.randint(1, 9))
    ]
    if generator.random() < 0.2:
        place = generator.randint(0, len(letters))
        letters.insert(place, generator.choice([*DROPPED, *KEPT]))
    return "".join(letters)


def _sentence(generator, count):
    """Returns a sentence, and its words as trees write them."""
    given = [_word(generator) for _ in range(count)]
    text = "".join(word + generator.choice(SPACES) for word in given)
    table = str.maketrans(dict.fromkeys(DROPPED, "") | {"(": "-LRB-"})
    table |= str.maketrans({")": "-RRB-"})
    return text, [word.translate(table) for word in given]


def _check(path, beam, n_best, lengths):
    generator = random.Random(beam)
    texts, expected = zip(*[_sentence(generator, each) for each in lengths])
    # Few and large batches, sorted by length.
    parser = Parser.from_directory(path, beam_size=beam, batch_tokens=8192)
    for parses, its_words in zip(parser.parse(texts, n_best), expected):
        assert 1 <= len(parses) <= n_best
        for parse in parses:
            assert words(parse.tree) == its_words
            assert set(tags(parse.tree)) <= set(parser.symbols.tags)
            assert read_tree(parse.text) == parse.tree
        assert len({parse.text for parse in parses}) == len(parses)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("parser")
    tiny_parser.write(path, max_output_extra=20)
    return path


def test_the_words_are_of_many_kinds():
    generator = random.Random(1)
    letters = {
        letter
        for _ in range(300)
        for word in _sentence(generator, 9)[1]
        for letter in word
    }
    assert len(set(map(unicodedata.category, letters))) > 15
    assert not letters & set(DROPPED)


@pytest.mark.parametrize(
    "beam, lengths",
    [(4, [*range(1, 31)] * 7 + [60, 300]), (21, [*range(1, 11)] * 4)],
    ids=["4", "21"],
)
def test_answers_are_trees_over_the_words(path, beam, lengths):
    _check(path, beam, beam, lengths)


@pytest.mark.slow
@pytest.mark.parametrize("beam", [4, 21])
def test_ten_thousand_answers_are_trees_over_the_words(path, beam):
    lengths = [1 + number % 60 for number in range(9_990)] + [300] * 10
    _check(path, beam, 1, lengths)
