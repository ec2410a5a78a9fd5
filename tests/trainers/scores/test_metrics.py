import json
import subprocess
import sys

import pytest

from trainers.data import EvaluationSet
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


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    "tokenize", ["13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none"]
)
def test_equals_the_command_line_of_sacrebleu(tmp_path, count, tokenize):
    references = [group[:count] for group in REFERENCES]
    texts = (HYPOTHESES, _evaluation_set(references))
    bleu, chrf = score_bleu(*texts, tokenize), score_chrf(*texts)
    options = ("--tokenize", tokenize, "--force")
    told = json.loads(
        _command_line(
            tmp_path, references, *("-m", "bleu", "chrf", "-w", "12", *options)
        )
    )
    for ours, theirs in zip((bleu, chrf), told):
        assert round(ours.score, 12) == theirs["score"]
        assert ours.signature == theirs["signature"]
        assert 10 < ours.score < 90
    assert f"ref_len = {bleu.reference_length})" in told[0]["verbose_score"]
    assert bleu.line.startswith(f"BLEU|{bleu.signature} = {bleu.score:.2f} ")


@pytest.mark.parametrize("tokenize", ["13a", "char"])
def test_the_interval_is_that_of_sacrebleus_command(tmp_path, tokenize):
    references = [group[:1] for group in REFERENCES]
    interval = bleu_interval(HYPOTHESES, _evaluation_set(references), tokenize)
    options = ("-m", "bleu", "-w", "9", "-ci", "--tokenize", tokenize)
    told = json.loads(_command_line(tmp_path, references, *options))
    mean, half = told["confidence_mean"], told["confidence_var"]
    assert half > 1
    assert interval.low == pytest.approx(mean - half, abs=2e-9)
    assert interval.high == pytest.approx(mean + half, abs=2e-9)
    assert interval.how in told["signature"]


def test_sentences_with_fewer_references_are_not_held_against_them():
    fewer = [group[: 1 + i % 2] for i, group in enumerate(REFERENCES)]
    bleu = score_bleu(HYPOTHESES, _evaluation_set(fewer), "13a")
    assert "nrefs:var" in bleu.signature
    one, two = (
        score_bleu(
            HYPOTHESES, _evaluation_set([g[:n] for g in REFERENCES]), "13a"
        )
        for n in (1, 2)
    )
    assert one.score < bleu.score < two.score


def test_all_right_is_100_and_case_counts():
    references = [group[:1] for group in REFERENCES]
    right = [group[0] for group in references]
    evaluation_set = _evaluation_set(references)
    assert score_bleu(right, evaluation_set, "13a").score == pytest.approx(100)
    lower = [text.lower() for text in right]
    assert score_bleu(lower, evaluation_set, "13a").score < 95


def test_an_evaluation_says_how_each_score_was_made():
    references = [group[: 1 + i % 2] for i, group in enumerate(REFERENCES)]
    evaluation = evaluate(HYPOTHESES, _evaluation_set(references), "13a")
    record = json.loads(json.dumps(evaluation.record()))
    assert (record["sentences"], record["references"]) == (6, 9)
    bleu = score_bleu(HYPOTHESES, _evaluation_set(references), "13a")
    assert record["score"] == round(bleu.score, 4)
    assert record["signature"] == bleu.signature
    interval = bleu_interval(HYPOTHESES, _evaluation_set(references), "13a")
    assert record["confidence_95"] == [
        round(interval.low, 4),
        round(interval.high, 4),
    ]
    assert interval.low < bleu.score < interval.high
    assert "perplexity" not in record
    lines = evaluation.lines
    assert lines[0] == bleu.line
    assert [line.partition(" = ")[0] for line in lines[2:]] == [
        f"chrF2|{record['chrf']['signature']}",
        f"compound-split BLEU|{record['compound_split_bleu']['signature']}",
    ]


def test_what_is_not_scored_leaves_the_others_beside_their_references():
    """Of what stands between them, one has no source and one no reference."""
    references = [group[:1] for group in REFERENCES]
    sources = [f"source {i}" for i in range(6)]
    expected = evaluate(
        HYPOTHESES, EvaluationSet(tuple(sources), tuple(references)), "13a"
    )
    texts = list(HYPOTHESES)
    for place, source, group in ((4, "source", ()), (1, " ", REFERENCES[0])):
        sources.insert(place, source)
        references.insert(place, group)
        texts.insert(place, "A dog was running in the park .")
    found = evaluate(
        texts, EvaluationSet(tuple(sources), tuple(references)), "13a"
    )
    assert found.not_scored == 2
    assert {**found.record(), "not_scored": 0} == expected.record()


def test_perplexity_is_told_with_the_references_that_went_in():
    references = [group[: 1 + i % 2] for i, group in enumerate(REFERENCES)]
    evaluation = evaluate(
        HYPOTHESES,
        _evaluation_set(references),
        "13a",
        Perplexity(per_token=2.5, tokens=1234, left_out=2),
    )
    said = "perplexity = 2.5000 a token, over 1,234 tokens of 7 references"
    assert said in evaluation.lines
