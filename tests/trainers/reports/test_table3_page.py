"""The table, by hand."""

import pytest

from trainers.reports import table3_page
from trainers.reports.table3_rows import make_table3_rows


def _score(perplexity, bleu, half=1.0):
    return {
        "score": bleu,
        "signature": "tok:13a",
        "confidence_95": [bleu - half, bleu + half],
        "bootstrap": "bs:1000",
        "perplexity": {"per_token": perplexity},
        "parameters": 1_234_567,
        "training": {"seconds": 65.0, "hardware": "2 cores of X"},
        "dataset": "text:/home/me/toy",
        "source_language": "en",
        "target_language": "de",
        "split": "dev",
        "sentences": 1000,
        "beam_size": 4,
        "alpha": 0.6,
        "date": "2026-01-01",
    }


@pytest.fixture(scope="module")
def rows():
    return make_table3_rows(
        ["A1", "E-learned"], ["mine:norm=pre"], ["num_layers=2"], 0.25, 900
    )


@pytest.fixture(scope="module")
def scores():
    return {
        "base": _score(10.0, 30.0),
        "A1": _score(11.0, 27.0),
        "mine": _score(8.0, 33.0),
    }


def cells(page):
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


def test_the_layout_is_the_papers(rows, scores):
    lines = cells(table3_page.make_table3_page(rows, scores, 0.25))
    assert lines[2] == [
        *("base", "2", "128", "512", "8", "16", "16", "0.1", "0.1", "900"),
        *("10.00", "30.00", "29.00 to 31.00", "1.23", "1:05"),
        *("4.92", "25.8", "65"),
    ]
    assert lines[3] == [
        *("A1", "", "", "", "1", "128", "128", "", "", ""),
        *("11.00", "27.00", "26.00 to 28.00", "1.23", "1:05"),
        *("5.29", "24.9", ""),
    ]
    assert lines[4] == ["E-learned (positions=learned)"] + 9 * [""] + [
        *("not yet", "", "", "", "", "4.92", "25.7", "")
    ]
    assert lines[5][0] == "mine (norm=pre)"


def test_decoders_of_other_depths_stand_in_the_column_of_layers():
    own = ["deep:num_layers=12,num_decoder_layers=1", "same:num_layers=2"]
    rows = make_table3_rows([], own, ["num_decoder_layers=2"], 0.25, 900)
    page = cells(table3_page.make_table3_page(rows, {}, 0.25))
    assert [line[:2] for line in page[2:]] == [
        *(["base", "6 + 2"], ["deep", "12 + 1"], ["same", "2"])
    ]


def test_scale_budget_and_data_stand_on_it(rows, scores):
    page = table3_page.make_table3_page(rows, scores, 0.25)
    for fact in (
        "at scale 0.25",
        "900 updates of 25,000 positions a side, warm-up 4,000",
        "Data: text:toy, en to de, split dev, 1,000 sentences",
        "beam 4, α 0.6",
        "`tok:13a`",
        "2 cores of X",
    ):
        assert fact in page
    assert "/home" not in page
