import json
import re
import subprocess
import sys

import pytest

from tests.trainers.helpers import minute_config
from trainers.corpora import EvaluationSet
from trainers.scoring import score_bleu, score_record

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
        [*command, "-i", str(folder / "0"), "-m", "bleu", *options],
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    return done.stdout.strip()


@pytest.mark.parametrize("count", [1, 2])
def test_equals_the_command_line_of_sacrebleu(tmp_path, count):
    references = [group[:count] for group in REFERENCES]
    bleu = score_bleu(HYPOTHESES, _evaluation_set(references))
    told = json.loads(_command_line(tmp_path, references, "-w", "4"))
    assert round(bleu.score, 4) == told["score"]
    assert bleu.signature == told["signature"]
    assert 10 < bleu.score < 90
    options = ("--format", "text", "-w", "2")
    assert bleu.line == _command_line(tmp_path, references, *options)


def test_sentences_with_fewer_references_are_not_held_against_them():
    fewer = [group[: 1 + i % 2] for i, group in enumerate(REFERENCES)]
    bleu = score_bleu(HYPOTHESES, _evaluation_set(fewer))
    assert "nrefs:var" in bleu.signature
    one, two = (
        score_bleu(HYPOTHESES, _evaluation_set([g[:n] for g in REFERENCES]))
        for n in (1, 2)
    )
    assert one.score < bleu.score < two.score


def test_all_right_is_100_and_case_counts():
    references = [group[:1] for group in REFERENCES]
    right = [group[0] for group in references]
    evaluation_set = _evaluation_set(references)
    assert score_bleu(right, evaluation_set).score == pytest.approx(100)
    lower = [text.lower() for text in right]
    assert score_bleu(lower, evaluation_set).score < 95


def test_a_record_says_how_the_score_was_made():
    bleu = score_bleu(HYPOTHESES, _evaluation_set([g[:1] for g in REFERENCES]))
    config = minute_config(beam_size=5, alpha=1.5, length_penalty="power")
    record = score_record(bleu, config, "test", 70, "text:x", 6)
    date = record.pop("date")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", date)
    assert json.loads(json.dumps(record)) == {
        "metric": "BLEU",
        "score": round(bleu.score, 4),
        "signature": bleu.signature,
        "dataset": "text:x",
        "split": "test",
        "sentences": 6,
        "beam_size": 5,
        "alpha": 1.5,
        "length_penalty": "power",
        "step": 70,
    }
