"""A tiny parser with random weights whose answers differ."""

import functools

from export.model_directory import ModelDirectory
from export.parsing.linearization import SymbolVocabulary
from export.parsing.trees import read_trees, tree_words
from export.parsing.word_tokenizer import WordTokenizer
from tests.export import tiny
from tests.export.parsing.made_trees import TRAIN
from trainers.data.vocabulary import train_vocabulary


@functools.cache
def trees() -> list:
    return list(read_trees(TRAIN))


def sentences(count: int) -> list[str]:
    """Of CRAFT."""
    return [" ".join(tree_words(tree)) for tree in trees()[:count]]


@functools.cache
def vocabularies():
    """Returns the SymbolVocabulary, and the bytes of that of words."""
    vocabulary = train_vocabulary(iter(sentences(len(trees()))), 300)
    return SymbolVocabulary.from_trees(trees()), vocabulary


def write(path, **changes) -> None:
    """Writes the model directory."""
    symbols, vocabulary = vocabularies()
    tokenizer = WordTokenizer(vocabulary)
    fitting = {
        "vocabulary_size": symbols.vocabulary_size,
        "source_vocabulary_size": tokenizer.vocabulary_size,
        "positions": "next-word",
        "first_source_word_id": tokenizer.first_word_id,
        "first_target_word_id": symbols.first_tag_id,
        "num_layers": 1,
        "max_extra_tokens": 40,
    }
    directory, run = ModelDirectory(path), {"dataset": "made up"}
    directory.write(tiny.model(**fitting | changes), vocabulary, run)
    directory.write_symbols(symbols.to_json())
