"""Entries of scores.json: what is replaced, what is added."""

import pytest

from trainers.scores.score_records import add_record

ONE = {
    "metric": "BLEU",
    "score": 27.3,
    "signature": "tok:13a",
    "dataset": "text:x",
    "split": "test",
    "sentences": 8,
    "references": 8,
    "reference_length": 70,
    "beam_size": 4,
    "alpha": 0.6,
    "length_penalty": "gnmt",
    "step": 10,
    "weights": "the last step",
}


def test_the_same_evaluation_is_replaced():
    first, other = ONE | {"perplexity": 4.0}, ONE | {"split": "dev"}
    changed = ONE | {"score": 28.0}
    assert add_record([first, other], changed) == [changed, other]
    # With an equal score, what another command measured is kept.
    again = ONE | {"date": "2026-01-01"}
    assert add_record([first], again) == [again | {"perplexity": 4.0}]


@pytest.mark.parametrize("name", [each for each in ONE if each != "score"])
def test_another_evaluation_is_added(name):
    other = ONE | {name: "another"}
    assert add_record([ONE], other) == [ONE, other]
