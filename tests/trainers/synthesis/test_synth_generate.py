"""Pairs of a tiny model, compared with what its Translator answers."""

import dataclasses
import gzip
import random

import numpy as np
import pytest
import sacrebleu

from export.common.errors import InputError
from export.translators.batches import IdPair
from export.translators.text_translator import Translation
from tests import made_up_text
from tests.trainers import commands
from tests.trainers.synthesis.jobs import OPTIONS, pairs_in
from trainers.synthesis.generate import (
    add_noise,
    drop_words,
    generate_pairs,
    permute_words,
)
from trainers.synthesis.shards import Line

TEXTS = [*made_up_text.sentences(24), "", "ba " * 600, ""]
LINES = [Line(100 + index, text) for index, text in enumerate(TEXTS)]


def options(**changes):
    return dataclasses.replace(OPTIONS, **changes)


@pytest.fixture(scope="module")
def answers(translator):
    return [each.text for each in translator.translate(TEXTS[:24])]


def test_lines_are_sources_forward_and_targets_backward(translator, answers):
    result = generate_pairs(translator, LINES, options())
    assert result.counts == {
        **{"read": 27, "blank": 2, "too_long": 1, "translated": 24}
    }
    assert result.pairs == [*zip(TEXTS, answers)]
    result = generate_pairs(
        translator, LINES, options(direction="backward", tag="T")
    )
    assert result.pairs == [(f"T {a}", t) for a, t in zip(answers, TEXTS)]


def test_the_command_makes_a_corpus(model_path, answers, tmp_path):
    sentences = [*TEXTS[:12], "", TEXTS[0]]
    packed = gzip.compress("\n".join(sentences).encode())
    (tmp_path / "text.gz").write_bytes(packed)
    command = commands.Worker("trainers.synthesize")
    result = command.run(
        *(f"--model={model_path}", "--text=text.gz", "--output_dir=out"),
        *("--source_language=aa", "--target_language=bb"),
        *("--shard_lines=5", "--workers=1"),
        folder=tmp_path,
    )
    command.close()
    assert result.code == 0, result.err
    counts = "14 read, 1 blank, 1 duplicate, 12 written"
    assert f"out: {counts}." in result.out
    assert "trainers.wmt --dataset=text:out/ --source_language=aa" in result.out
    assert pairs_in(tmp_path / "out") == [*zip(TEXTS[:12], answers)]


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

    def lengths(self, texts):
        return [len(text.split()) + 1 for text in texts]

    def encode_pairs(self, texts, translations):
        return [IdPair([0], [0], False) for _ in texts]


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
        seed = line.text if decoding == "beam" else line.number + 5
        texts = Canned().candidates(seed, 4)
        scores = [score(text, [reference]).score for text in texts]
        assert target == texts[scores.index(max(scores))]
    with pytest.raises(InputError, match="--best_of=9"):
        generate_pairs(Canned(), LINES, options(best_of=9))


def _lengths(translator, answers):
    return translator.lengths(TEXTS[:24])


def _ratios(translator, answers):
    lengths = [translator.lengths([*pair]) for pair in zip(TEXTS, answers)]
    return [
        max((one - 1) / (other - 1), (other - 1) / (one - 1))
        for one, other in lengths
    ]


def _losses(translator, answers):
    scores = translator.score(TEXTS[:24], answers)
    lengths = translator.lengths(answers)
    return [-score / length for score, length in zip(scores, lengths)]


@pytest.mark.parametrize(
    ("name", "sign", "outcome", "measure"),
    [
        ("max_pieces", 1, "too_long", _lengths),
        ("max_ratio", 1, "length_ratio", _ratios),
        ("min_score", -1, "low_score", _losses),
    ],
)
def test_filters(translator, answers, name, sign, outcome, measure):
    values = measure(translator, answers)
    middle = sorted(values)[11:13]
    limit = middle[0] if name == "max_pieces" else sum(middle) / 2
    filters = options(**{name: sign * limit})
    result = generate_pairs(translator, LINES[:24], filters)
    expected = [TEXTS[n] for n in range(24) if values[n] <= limit]
    assert [source for source, _ in result.pairs] == expected
    assert result.counts[outcome] == 24 - len(expected) > 0


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
        return add_noise(text, number, options(**changes))

    noise = {"word_drop": 0.2, "word_swap": 3}
    text = " ".join(WORDS)
    assert noisy(text, 7, **noise) == noisy(text, 7, **noise)
    grid = [(number, seed) for number in range(5) for seed in range(5)]
    assert len({noisy(text, n, seed=s, **noise) for n, s in grid}) == 25
    assert noisy("a b", tag="T", word_drop=1.0) in ("T a", "T b")
    assert noisy("a  b\u00a0c") == "a  b\u00a0c"
