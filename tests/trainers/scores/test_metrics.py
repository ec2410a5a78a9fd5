"""Scores and intervals against the sacrebleu command."""

import json
import subprocess
import sys

import numpy as np
import pytest
import sacrebleu

from trainers.data import EvaluationSet
from trainers.scores import metrics
from trainers.scores.evaluation import Perplexity, evaluate
from trainers.scores.metrics import bleu_interval, score_bleu, score_chrf

HYPOTHESES = [
    "The cat sat on the mat, didn't it?",
    "A dog was running in the park .",
    "",
    "«Ja», sagte er: 3,5 % mehr!",
    "two men in a boat are fishing on the lake",
    "An unrelated line.",
]
REFERENCES = [
    ("The cat sat on the mat, didn't it?", "A cat was sitting on a mat."),
    ("A dog is running in the park.", "The dog runs through the park."),
    ("Nothing to see here.", "There is nothing."),
    ("„Ja“, sagte er: 3,5 % mehr!", "«Ja», meinte er: 3,5 % mehr."),
    ("Two men are fishing on the lake.", "two men in a boat on a lake"),
    ("What it should have been.", "Something else entirely."),
]


def _evaluation_set(references):
    return EvaluationSet(
        sources=tuple(f"source {i}" for i in range(len(references))),
        references=tuple(references),
    )


def _command_line(folder, references, *options):
    """What the sacrebleu command says of the same texts in files."""
    streams = list(zip(*references))
    for number, texts in enumerate([HYPOTHESES, *streams]):
        text = "".join(f"{text}\n" for text in texts)
        (folder / f"{number}").write_text(text, encoding="utf-8")
    names = [str(folder / f"{n + 1}") for n in range(len(streams))]
    command = [sys.executable, "-m", "sacrebleu", *names]
    done = subprocess.run(
        [*command, "-i", str(folder / "0"), *options],
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("tokenize", "count"),
    [("13a", 1), ("13a", 2), ("zh", 2), ("ja-mecab", 2), ("none", 2)],
)
def test_equals_the_sacrebleu_command(tmp_path, tokenize, count):
    references = [group[:count] for group in REFERENCES]
    texts = (HYPOTHESES, _evaluation_set(references))
    bleu, chrf = score_bleu(*texts, tokenize), score_chrf(*texts)
    options = ("--tokenize", tokenize, "--force")
    found = json.loads(
        _command_line(
            tmp_path, references, *("-m", "bleu", "chrf", "-w", "12", *options)
        )
    )
    for ours, theirs in zip((bleu, chrf), found):
        assert round(ours.score, 12) == theirs["score"]
        assert ours.signature == theirs["signature"]
        assert 10 < ours.score < 90
    assert f"ref_len = {bleu.reference_length})" in found[0]["verbose_score"]
    assert bleu.line.startswith(f"BLEU|{bleu.signature} = {bleu.score:.2f} ")


def test_the_interval_is_that_of_the_sacrebleu_command(tmp_path):
    references = [group[:1] for group in REFERENCES]
    interval = bleu_interval(HYPOTHESES, _evaluation_set(references), "13a")
    options = ("-m", "bleu", "-w", "9", "-ci", "--tokenize", "13a")
    found = json.loads(_command_line(tmp_path, references, *options))
    mean, half = found["confidence_mean"], found["confidence_var"]
    assert half > 1
    assert interval.low == pytest.approx(mean - half, abs=2e-9)
    assert interval.high == pytest.approx(mean + half, abs=2e-9)
    assert interval.bootstrap in found["signature"]


def test_lines_that_cannot_be_scored_are_skipped():
    """One without a source and one without a reference, among others."""
    references = [group[:1] for group in REFERENCES]
    sources = [f"source {i}" for i in range(6)]
    perplexity = Perplexity(per_token=2.5, tokens=1234, skipped=2)
    expected = evaluate(
        HYPOTHESES, _evaluation_set(references), "13a", perplexity
    )
    texts = list(HYPOTHESES)
    for index, source, group in ((4, "source", ()), (1, " ", REFERENCES[0])):
        sources.insert(index, source)
        references.insert(index, group)
        texts.insert(index, "A dog was running in the park .")
    found = evaluate(
        texts,
        EvaluationSet(tuple(sources), tuple(references)),
        "13a",
        perplexity,
    )
    assert found.not_scored == 2
    assert {**found.record(), "not_scored": 0} == expected.record()
    assert f"perplexity = 2.5000 a token, over 1,234 tokens of {6 - 2} " in (
        "\n".join(found.lines)
    )


WORSE = [" ".join(text.split()[:4]) for text in HYPOTHESES]


def test_paired_difference_equals_scores_of_resampled_texts(monkeypatch):
    monkeypatch.setattr(metrics, "BOOTSTRAP_SAMPLES", 40)
    evaluation_set = _evaluation_set(REFERENCES)
    streams = evaluation_set.reference_streams()

    def difference(places):
        resampled = [[stream[n] for n in places] for stream in streams]
        scores = [
            sacrebleu.corpus_bleu([texts[n] for n in places], resampled).score
            for texts in (HYPOTHESES, WORSE)
        ]
        return scores[0] - scores[1]

    generator = np.random.default_rng(12345)
    places = generator.choice(len(HYPOTHESES), size=(40, len(HYPOTHESES)))
    low, high = np.percentile([*map(difference, places)], [2.5, 97.5])
    found = metrics.bleu_difference(HYPOTHESES, WORSE, evaluation_set, "13a")
    assert found.difference == pytest.approx(difference(range(6)))
    assert found.difference > 0
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.bootstrap == "bs:40|seed:12345"
    other = metrics.bleu_difference(WORSE, HYPOTHESES, evaluation_set, "13a")
    assert (other.low, other.high) == pytest.approx((-found.high, -found.low))
