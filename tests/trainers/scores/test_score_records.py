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
    "perplexity": 4.0,
    "date": "2026-01-01",
}


def test_the_same_evaluation_again_takes_the_place_of_the_first():
    other = ONE | {"split": "dev"}
    again = ONE | {"score": 28.0, "date": "2026-01-02"}
    del again["perplexity"]
    assert add_record([ONE, other], again) == [again, other]


def test_what_another_command_measured_of_it_is_kept():
    again = ONE | {"date": "2026-01-02"}
    del again["perplexity"]
    assert add_record([ONE], again) == [again | {"perplexity": 4.0}]


@pytest.mark.parametrize(
    "change",
    [
        {"signature": "tok:none"},
        {"dataset": "text:y"},
        {"split": "dev"},
        {"references": 9},
        {"beam_size": 1},
        {"alpha": 1.0},
        {"length_penalty": "power"},
        {"metric": "chrF"},
        {"sentences": 7},
        {"reference_length": 71},
        {"step": 20},
        {"weights": "average"},
    ],
    ids=str,
)
def test_another_evaluation_is_appended(change):
    assert add_record([ONE], ONE | change) == [ONE, ONE | change]


def test_an_entry_of_an_older_version_is_known_again():
    older = {n: ONE[n] for n in ONE if n not in ("references", "weights")}
    assert add_record([older], ONE) == [ONE]
