"""One parser, and several that parse together."""

import shutil

import numpy as np
import pytest

from export.common.errors import InputError
from export.model_directory import ModelDirectory
from export.parsing.linear import Symbols, linearise
from export.parsing.parser import MOST_IDS, Parser
from export.parsing.trees import words
from export.parsing.words import WordTokenizer
from keras_transformer.config import BEGIN_ID, END_ID
from tests.export.parsing import tiny_parser

SENTENCES = ["The cell divides .", "-LRB- BMP-4 -RRB-", "x"]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Two model directories of the same vocabularies."""
    one, other = (tmp_path_factory.mktemp("parser") for _ in "12")
    tiny_parser.write(one)
    shutil.copytree(one, other, dirs_exist_ok=True)
    model = ModelDirectory(other).load_model()
    generator = np.random.default_rng(2)
    for weight in model.trainable_variables:
        weight.assign_add(generator.normal(0, 0.1, weight.shape))
    ModelDirectory(other).write_weights(model)
    return one, other


def _softmax(logits):
    logits = np.asarray(logits, "float64")
    exponents = np.exp(logits - logits.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


def test_several_parse_by_the_mean_of_their_probabilities(paths):
    together = Parser.from_directory(*paths, ensemble_mean="probabilities")
    found = together.parse(SENTENCES)
    models = [ModelDirectory(path).load_model() for path in paths]
    vocabulary = ModelDirectory(paths[0]).read_vocabulary()
    tokenizer = WordTokenizer(vocabulary)
    for sentence, (parse,) in zip(SENTENCES, found):
        ids = together.symbols.ids(linearise(parse.tree))
        (source,) = tokenizer.encode([sentence])
        inputs = {
            "source": source[None],
            "target": np.array([[BEGIN_ID, *ids]], np.int32),
        }
        each = [_softmax(model(inputs))[0] for model in models]
        its = np.mean(each, axis=0)[range(len(ids) + 1), [*ids, END_ID]]
        # Wu et al. 2016, formula 14.
        penalty = ((5 + len(ids) + 1) / 6) ** together.model.config.alpha
        np.testing.assert_allclose(
            parse.score, np.log(its).sum() / penalty, rtol=1e-4
        )


def _changed(path, tmp_path, change):
    shutil.copytree(path, tmp_path, dirs_exist_ok=True)
    directory = ModelDirectory(tmp_path)
    change(directory)
    return directory.path


def test_other_symbols_are_refused(paths, tmp_path):
    def change(directory):
        trees = tiny_parser.trees()[:50]
        directory.write_symbols(Symbols.of(trees).to_json())

    other = _changed(paths[0], tmp_path, change)
    with pytest.raises(InputError, match="different symbols of trees; only"):
        Parser.from_directory(paths[0], other)


def test_another_vocabulary_is_refused(paths, tmp_path):
    def change(directory):
        directory.write_vocabulary(directory.read_vocabulary() + b"\0")

    other = _changed(paths[0], tmp_path, change)
    with pytest.raises(InputError, match="different vocabularies; only"):
        Parser.from_directory(paths[0], other)


def test_a_mean_of_one_is_refused(paths):
    with pytest.raises(InputError, match="--ensemble_mean"):
        Parser.from_directory(paths[0], ensemble_mean="probabilities")


def test_what_is_no_sentence_is_refused(paths):
    parser = Parser.from_directory(paths[0])
    with pytest.raises(InputError, match="One sentence a line") as error:
        parser.parse(["x", "a b " * MOST_IDS])
    assert "4,096 words" in str(error.value)
    assert "it begins 'a b a b" in str(error.value)


def test_learned_positions_bound_a_sentence(tmp_path):
    learned = {"positions": "learned", "max_positions": 40}
    words_from = {"source_words_from": 0, "target_words_from": 0}
    tiny_parser.write(tmp_path, **learned, **words_from)
    parser = Parser.from_directory(tmp_path)
    # A tree over 9 words has tens of symbols where there is room.
    (parse,), (short,) = parser.parse([" ".join("abcdefghi"), "a"])
    assert words(parse.tree) == list("abcdefghi")
    assert len(linearise(parse.tree)) < 40
    assert words(short.tree) == ["a"]
    with pytest.raises(InputError, match="longer than the 40 that this"):
        parser.parse([" ".join(["a"] * 38)])
