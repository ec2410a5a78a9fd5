"""Pairs of a tiny model, compared with what its Translator answers."""

import dataclasses
import random

import numpy as np
import pytest
import sacrebleu
import tensorflow as tf

from export import loading
from export.common.errors import InputError
from export.translators.translation import (
    Sentence,
    SentencePair,
    Translation,
)
from tests import made_up_text
from tests.export import many_languages
from tests.trainers.synthesis.jobs import OPTIONS
from trainers.synthesis.generate import generate_pairs
from trainers.synthesis.shards import Line
from trainers.synthesis.word_noise import (
    add_word_noise,
    drop_words,
    permute_words,
)
from trainers.synthesis.workers import (
    TranslationJob,
    hash_model_files,
    load_translator,
    validate_model_direction,
)

TEXTS = [*made_up_text.sentences(24), "", "ba " * 600, ""]
LINES = [Line(100 + index, text) for index, text in enumerate(TEXTS)]


def options(**changes):
    return dataclasses.replace(OPTIONS, **changes)


def test_lines_are_sources_forward_and_targets_backward(translator):
    answers = [each.text for each in translator.translate(TEXTS[:24])]
    result = generate_pairs(translator, LINES, options())
    assert result.counts == {
        **{"read": 27, "blank": 2, "too_long": 1, "translated": 24}
    }
    assert result.pairs == [*zip(TEXTS, answers)]
    result = generate_pairs(
        translator, LINES, options(direction="backward", tag="T")
    )
    assert result.pairs == [(f"T {a}", t) for a, t in zip(answers, TEXTS)]


class Canned:
    """A translator with made-up answers, several for a line."""

    beam_size = 4
    words = ("the", "cat", "sat", "on", "a", "mat", "and", "dog", "came")

    def __init__(self):
        self.asked = []

    def candidates(self, seed, count):
        generator = random.Random(seed)
        return [
            " ".join(generator.choices(self.words, k=generator.randint(3, 9)))
            for _ in range(count)
        ]

    def n_best(self, texts, n):
        self.asked += texts
        return [
            [Translation(each, 0.0) for each in self.candidates(text, n)]
            for text in texts
        ]

    def sample(self, texts, seeds, rules):
        assert (rules.temperature, rules.top_k, rules.top_p) == (0.5, 9, 0.75)
        return self.n_best(seeds, rules.samples)

    def sentences(self, texts):
        return [
            Sentence(text, (), len(text.split()) + 1, False) for text in texts
        ]

    def pairs(self, texts, translations):
        return [
            SentencePair(
                *(
                    Sentence(each, (), each.count(" ") + 2, False)
                    for each in pair
                )
            )
            for pair in zip(texts, translations)
        ]


@pytest.mark.parametrize(
    "decoding, metric", [("beam", "bleu"), ("sample", "chrf")]
)
def test_the_best_of_several_is_nearest_to_the_reference(decoding, metric):
    reference = "the cat sat on the mat and the dog came"
    lines = [line._replace(reference=reference) for line in LINES[:24]]
    score = getattr(sacrebleu, f"sentence_{metric}")
    how = {"decoding": decoding, "metric": metric, "best_of": 4, "seed": 5}
    filters = {"temperature": 0.5, "top_k": 9, "top_p": 0.75}
    pairs = generate_pairs(Canned(), lines, options(**how, **filters)).pairs
    for line, (_, target) in zip(lines, pairs, strict=True):
        seed = line.text if decoding == "beam" else line.index + 5
        texts = Canned().candidates(seed, 4)
        scores = [score(text, [reference]).score for text in texts]
        assert target == texts[scores.index(max(scores))]
    with pytest.raises(InputError, match="best_of=9"):
        generate_pairs(Canned(), LINES, options(best_of=9))


def test_filters():
    """By tokens, with the end token, but for the ratio."""

    class Known(Canned):
        def n_best(self, texts, n):
            return [[Translation("x y", 0.0)] for _ in texts]

        def score_pairs(self, pairs):
            return [-1.0, -4.0, -2.0]

    lines = [Line(n, text) for n, text in enumerate(("a", "b c", "d e f g"))]
    for filters, expected, outcome in (
        ({"max_pieces": 3}, ["a", "b c"], "too_long"),
        ({"max_ratio": 1.5}, ["b c"], "length_ratio"),
        ({"min_score": -1.0}, ["a", "d e f g"], "low_score"),
    ):
        result = generate_pairs(Known(), lines, options(**filters))
        assert [source for source, _ in result.pairs] == expected
        assert result.counts[outcome] == 3 - len(expected)


def test_empty_translations_blank_and_repeated_lines():
    class PartlyEmpty(Canned):
        def n_best(self, texts, n):
            return [[Translation(t, 0.0)] for t in ("", " \n ", "a\nb\tc\r")]

    result = generate_pairs(PartlyEmpty(), LINES[:3], options())
    assert result.counts == {"read": 3, "empty_translation": 2, "translated": 1}
    assert result.pairs == [(TEXTS[2], "a b c")]
    result = generate_pairs(Canned(), [Line(0, ""), Line(1, "")], options())
    assert result == ({"read": 2, "blank": 2, "translated": 0}, [])
    # A repeated sentence is searched once.
    first, other = TEXTS[:2]
    lines = [Line(n, text) for n, text in enumerate((first, other, first))]
    canned = Canned()
    pairs = generate_pairs(canned, lines, options()).pairs
    assert canned.asked == [first, other]
    assert [source for source, _ in pairs] == [first, other, first]
    assert pairs[0] == pairs[2] == (first, canned.candidates(first, 1)[0])


WORDS = [f"w{number}" for number in range(12)]


def test_a_word_moves_by_no_more_than_the_distance():
    for distance in (0, 3):
        moved = []
        for seed in range(300):
            found = permute_words(WORDS, distance, np.random.default_rng(seed))
            assert sorted(found) == sorted(WORDS)
            moved += [abs(found.index(w) - i) for i, w in enumerate(WORDS)]
        assert max(moved) == distance


def test_words_are_dropped_with_the_probability_but_never_all():
    def dropped(probability, seed):
        return drop_words(WORDS, probability, np.random.default_rng(seed))

    count = sum(len(dropped(0.25, seed)) for seed in range(1000))
    # Six standard deviations of a binomial of 12,000.
    assert abs(count - 9000) < 6 * (12_000 * 0.25 * 0.75) ** 0.5
    found = [dropped(1.0, seed) for seed in range(300)]
    assert {len(words) for words in found} == {1}
    assert {words[0] for words in found} == set(WORDS)


def test_noise_depends_on_seed_and_line_alone():
    def noisy(text, number=0, **changes):
        return add_word_noise(text, number, options(**changes))

    noise = {"word_drop": 0.2, "word_swap": 3}
    text = " ".join(WORDS)
    assert noisy(text, 7, **noise) == noisy(text, 7, **noise)
    grid = [(number, seed) for number in range(5) for seed in range(5)]
    assert len({noisy(text, n, seed=s, **noise) for n, s in grid}) == 25
    assert noisy("a b", tag="T", word_drop=1.0) in ("T a", "T b")
    assert noisy("a  b\u00a0c") == "a  b\u00a0c"


@pytest.fixture
def load(monkeypatch):
    """`load_translator`, which sets no threads of this process."""
    for name in ("intra", "inter"):
        monkeypatch.setattr(
            tf.config.threading,
            f"set_{name}_op_parallelism_threads",
            lambda number: None,
        )
    return load_translator


def test_a_model_of_several_languages(tmp_path, load):
    path = many_languages.write_model(tmp_path / "model", "pair")
    files = (hash_model_files(path),)
    languages = {"source_language": "deu_Latn", "target_language": "eng_Latn"}
    job = TranslationJob(files, options(**languages, direction="backward"))
    expected = loading.load_translator(path, num_threads=1).for_languages(
        "eng_Latn", "deu_Latn"
    )
    assert load(job).translate(TEXTS[:8]) == expected.translate(TEXTS[:8])
    validate_model_direction(path, *job.options.model_languages)
    with pytest.raises(InputError, match="nld_Latn"):
        validate_model_direction(path, "eng_Latn", "nld_Latn")


def test_lines_may_be_as_long_as_the_flag_says(model_path, load):
    files = (hash_model_files(model_path),)
    for max_pieces in (256, 9000):
        job = TranslationJob(files, options(max_pieces=max_pieces))
        (sentence,) = load(job).sentences(["ba " * 600])
        assert sentence.truncated == (max_pieces != 9000)
