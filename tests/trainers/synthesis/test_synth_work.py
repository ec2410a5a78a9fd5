"""Pairs of a tiny model, beside what its Translator says of each line."""

import dataclasses
import random

import pytest
import sacrebleu

import keras_transformer as kt
from export.errors import InputError
from export.translators.text_ids import IdPair
from export.translators.text_translator import Translation
from tests import made_up_text
from tests.trainers.synthesis.jobs import OPTIONS
from trainers.synthesis.filters import Counts
from trainers.synthesis.lines import Line
from trainers.synthesis.translation_job import generate_pairs

TEXTS = [*made_up_text.sentences(24), "", "ba " * 600, ""]
LINES = [Line(100 + place, text) for place, text in enumerate(TEXTS)]


def options(**changes):
    return dataclasses.replace(OPTIONS, **changes)


def translated(translator, texts=TEXTS):
    return [each.text for each in translator.translate(texts)]


@pytest.fixture(scope="module")
def answers(translator):
    return translated(translator)


def test_forward_the_lines_are_sources(translator, answers):
    made = generate_pairs(translator, LINES, options())
    assert made.counts == Counts(read=27, blank=2, too_long=1, kept=24)
    assert made.pairs == [*zip(TEXTS[:24], answers)]


def test_backward_the_lines_are_targets(translator, answers):
    made = generate_pairs(
        translator, LINES, options(way="backward", tag="<bt>")
    )
    expected = [(f"<bt> {a}", t) for a, t in zip(answers, TEXTS[:24])]
    assert made.pairs == expected


def test_noise_is_on_the_source_whichever_it_is(translator, answers):
    noise = {"word_drop": 0.5, "seed": 3}
    plain = [*zip(TEXTS[:24], answers)]
    for way in ("forward", "backward"):
        made = generate_pairs(translator, LINES, options(way=way, **noise))
        order = 1 if way == "forward" else -1
        for (source, target), pair in zip(made.pairs, plain, strict=True):
            was, stays = pair[::order]
            assert target == stays
            assert source and set(source.split()) <= set(was.split())


@pytest.mark.slow
def test_draws_are_of_seed_and_line(translator):
    how = options(decoding="sample", seed=7, top_k=5)
    made = generate_pairs(translator, LINES, how)
    seeds = [100 + place + 7 for place in range(24)]
    drawn = translator.sample(TEXTS[:24], seeds, kt.SamplingRules(1, 1.0, 5))
    assert [target for _, target in made.pairs] == [
        each.text for (each,) in drawn
    ]
    # In shards of any size, in any order.
    for start in (0, 10, 5):
        part = generate_pairs(translator, LINES[start : start + 5], how)
        assert part.pairs == made.pairs[start : start + 5]


class Canned:
    """A translator with made-up answers, several to a line."""

    beam_size = 4
    words = ("the", "cat", "sat", "on", "a", "mat", "and", "dog", "came")

    def candidates(self, seed, count):
        generator = random.Random(seed)
        return [
            " ".join(generator.choices(self.words, k=generator.randint(3, 9)))
            for _ in range(count)
        ]

    def n_best(self, texts, n):
        return [
            [Translation(each, 0.0) for each in self.candidates(text, n)]
            for text in texts
        ]

    def sample(self, texts, seeds, options):
        assert (options.temperature, options.top_k, options.top_p) == (
            0.5,
            9,
            0.75,
        )
        return self.n_best(seeds, options.samples)

    def lengths(self, texts):
        return [len(text.split()) + 1 for text in texts]

    def given_ids(self, texts, translations):
        return [IdPair([0], [0], False) for _ in texts]


def test_a_sentence_of_several_references_is_searched_once(monkeypatch):
    first, other = (line.text for line in LINES[:2])
    lines = [Line(n, text) for n, text in enumerate((first, other, first))]
    asked = []
    n_best = Canned.n_best

    def noted(translator, texts, n):
        asked.extend(texts)
        return n_best(translator, texts, n)

    monkeypatch.setattr(Canned, "n_best", noted)
    made = generate_pairs(Canned(), lines, options())
    assert asked == [first, other]
    assert [source for source, _ in made.pairs] == [first, other, first]
    targets = [target for _, target in made.pairs]
    assert targets[0] == targets[2] == Canned().candidates(first, 1)[0]


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
@pytest.mark.parametrize("decoding", ["beam", "sample"])
def test_the_best_of_several_is_the_references_nearest(metric, decoding):
    reference = "the cat sat on the mat and the dog came"
    lines = [line._replace(reference=reference) for line in LINES[:24]]
    score = {
        "bleu": sacrebleu.sentence_bleu,
        "chrf": sacrebleu.sentence_chrf,
    }[metric]
    how = {"decoding": decoding, "metric": metric, "best_of": 4, "seed": 5}
    cuts = {"temperature": 0.5, "top_k": 9, "top_p": 0.75}
    made = generate_pairs(Canned(), lines, options(**how, **cuts))
    places = []
    for line, (_, target) in zip(lines, made.pairs, strict=True):
        seed = line.text if decoding == "beam" else line.number + 5
        texts = Canned().candidates(seed, 4)
        scores = [score(text, [reference]).score for text in texts]
        places.append(scores.index(max(scores)))
        assert target == texts[places[-1]]
    assert len({*places}) == 4


def test_more_than_the_beam_holds_are_refused():
    with pytest.raises(InputError, match="--best_of=9 is more than the beam"):
        generate_pairs(Canned(), LINES, options(best_of=9))


def test_long_lines_are_left_out(translator):
    lengths = translator.lengths(TEXTS)
    limit = sorted(lengths[:24])[12]
    made = generate_pairs(translator, LINES, options(max_pieces=limit))
    short = [i for i in range(24) if lengths[i] <= limit]
    assert [pair[0] for pair in made.pairs] == [TEXTS[i] for i in short]
    assert made.counts.too_long == 25 - len(short)


def test_unlike_lengths_are_left_out(translator, answers):
    pieces = [translator.lengths([*pair]) for pair in zip(TEXTS[:24], answers)]
    ratios = [
        max((one - 1) / (other - 1), (other - 1) / (one - 1))
        for one, other in pieces
    ]
    limit = sorted(ratios)[15]
    made = generate_pairs(translator, LINES, options(max_ratio=limit))
    kept = [i for i in range(24) if ratios[i] <= limit]
    assert [pair[0] for pair in made.pairs] == [TEXTS[i] for i in kept]
    assert made.counts.unlike_lengths == 24 - len(kept) > 0


def test_unlikely_answers_are_left_out(translator, answers):
    scores = translator.score(TEXTS[:24], answers[:24])
    pieces = translator.lengths(answers[:24])
    mean = [score / count for score, count in zip(scores, pieces)]
    limit = (sorted(mean)[9] + sorted(mean)[10]) / 2
    made = generate_pairs(translator, LINES, options(min_score=limit))
    kept = [i for i in range(24) if mean[i] > limit]
    assert [pair[0] for pair in made.pairs] == [TEXTS[i] for i in kept]
    assert made.counts.unlikely == 10


def test_an_answer_without_text_is_left_out():
    class PartlySilent(Canned):
        def n_best(self, texts, n):
            said = ["", " \n ", "a\nb\tc\r"]
            return [[Translation(each, 0.0)] for each in said]

    made = generate_pairs(PartlySilent(), LINES[:3], options())
    assert made.counts == Counts(read=3, unanswered=2, kept=1)
    assert made.pairs == [(TEXTS[2], "a b c")]


def test_of_blank_lines_nothing_is_asked():
    lines = [Line(0, ""), Line(1, "")]
    deaf = type("Deaf", (), {"lengths": lambda self, texts: [1, 1]})()
    assert generate_pairs(deaf, lines, options()) == (
        Counts(read=2, blank=2),
        [],
    )
