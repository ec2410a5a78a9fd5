"""Rows of Table 3 against the table as the paper prints it, and the page."""

import dataclasses

import pytest

from export.common.errors import InputError
from trainers.reports.table3_rows import (
    TABLE_3,
    make_table3_page,
    make_table3_rows,
)
from trainers.training.config_flags import make_config

# N, d_model, d_ff, h, d_k, d_v, P_drop, eps_ls; "." is base's. From
# arXiv 1706.03762v7.
PRINTED = """
base       6 512 2048 8 64 64 0.1 0.1
A1         . . . 1 512 512 . .
A4         . . . 4 128 128 . .
A16        . . . 16 32 32 . .
A32        . . . 32 16 16 . .
B16        . . . . 16 . . .
B32        . . . . 32 . . .
C-n2       2 . . . . . . .
C-n4       4 . . . . . . .
C-n8       8 . . . . . . .
C-d256     . 256 . . 32 32 . .
C-d1024    . 1024 . . 128 128 . .
C-ff1024   . . 1024 . . . . .
C-ff4096   . . 4096 . . . . .
D-drop0    . . . . . . 0.0 .
D-drop2    . . . . . . 0.2 .
D-ls0      . . . . . . . 0.0
D-ls2      . . . . . . . 0.2
E-learned  . . . . . . . .
big        6 1024 4096 16 64 64 0.3 .
"""
FIELDS = (
    *("num_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v"),
    *("dropout", "label_smoothing"),
)
WIDTHS = ("d_model", "d_ff", "d_k", "d_v")


def test_the_rows_are_as_printed_times_the_scale(scale=0.25):
    rows = make_table3_rows(list(TABLE_3), [], [], scale, 700)
    assert [row.name for row in rows] == list(TABLE_3)
    base, *_ = lines = PRINTED.strip().splitlines()
    for row, line in zip(rows, lines, strict=True):
        name, *values = line.split()
        for field, own, default in zip(FIELDS, values, base.split()[1:]):
            factor = scale if field in WIDTHS else 1
            expected = float(default if own == "." else own) * factor
            assert getattr(row.config, field) == expected, (name, field)
        made = make_config("base", row.assignments)
        assert dataclasses.asdict(made) == dataclasses.asdict(row.config)
        learned = name == "E-learned"
        assert row.config.positions == ("learned" if learned else "sinusoidal")
        # The same budget for each, big too; no averages.
        assert row.config.train_steps == 700
        assert row.config.average_checkpoints == 0
        assert row.config.batch_tokens == 25_000


def test_a_rows_own_values_come_before_those_for_all():
    common = ["dropout=0.3", "vocabulary_size=500", "num_layers=3"]
    own = ["mine:norm=pre,num_layers=1", "wide:d_ff=80"]
    rows = make_table3_rows(["D-drop0"], own, common, 0.5, 9)
    assert [row.name for row in rows] == ["base", "D-drop0", "mine", "wide"]
    assert [row.config.dropout for row in rows] == [0.3, 0.0, 0.3, 0.3]
    assert [row.config.num_layers for row in rows] == [3, 3, 1, 3]
    assert [row.config.d_ff for row in rows] == [1024, 1024, 1024, 40]
    assert {row.config.vocabulary_size for row in rows} == {500}
    assert rows[2].config.norm == "pre"


def test_refusals():
    for names, own, common, scale, named in (
        (["A2"], [], [], 1, "A2"),
        ([], ["mine"], [], 1, "mine"),
        ([], ["../up:norm=pre"], [], 1, "../up"),
        ([], ["A1:norm=pre"], [], 1, "A1"),
        ([], ["a:norm=pre", "a:d_ff=8"], [], 1, "a:d_ff=8"),
        ([], ["a:depth=3"], [], 1, "depth"),
        ([], ["a:train_steps=3"], [], 1, "train_steps"),
        ([], [], ["average_checkpoints=3"], 1, "average_checkpoints"),
        (["A32"], [], [], 0.01, "0.01"),
    ):
        with pytest.raises(InputError, match=named):
            make_table3_rows(names, own, common, scale, 9)


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


def cells(page):
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


def test_the_page():
    rows = make_table3_rows(
        ["A1", "E-learned"],
        ["mine:norm=pre", "deep:num_layers=12,num_decoder_layers=1"],
        ["num_layers=2"],
        0.25,
        900,
    )
    scores = {"base": _score(10.0, 30.0), "A1": _score(11.0, 27.0)}
    page = make_table3_page(rows, scores, 0.25)
    lines = cells(page)
    assert lines[1] == [
        *("base", "2", "128", "512", "8", "16", "16", "0.1", "0.1", "900"),
        *("10.00", "30.00", "29.00 to 31.00", "1.23", "1:05"),
        *("4.92", "25.8", "65"),
    ]
    assert lines[2] == [
        *("A1", "", "", "", "1", "128", "128", "", "", ""),
        *("11.00", "27.00", "26.00 to 28.00", "1.23", "1:05"),
        *("5.29", "24.9", ""),
    ]
    assert lines[3] == ["E-learned (positions=learned)"] + 9 * [""] + [
        *("not yet", "", "", "", "", "4.92", "25.7", "")
    ]
    assert lines[4][0] == "mine (norm=pre)"
    assert lines[5][:2] == ["deep", "12 + 1"]
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
