"""Rows of Table 3 against the table as the paper prints it."""

import dataclasses

import pytest

from export.common.errors import InputError
from trainers.reports.published_scores import PAPER
from trainers.reports.table3_rows import make_rows

# N, d_model, d_ff, h, d_k, d_v, P_drop, eps_ls | PPL, BLEU, params; "." is
# base's. Read off arXiv 1706.03762v7.
PRINTED = """
base       6 512 2048 8 64 64 0.1 0.1    4.92 25.8 65
A1         . . . 1 512 512 . .           5.29 24.9 .
A4         . . . 4 128 128 . .           5.00 25.5 .
A16        . . . 16 32 32 . .            4.91 25.8 .
A32        . . . 32 16 16 . .            5.01 25.4 .
B16        . . . . 16 . . .              5.16 25.1 58
B32        . . . . 32 . . .              5.01 25.4 60
C-n2       2 . . . . . . .               6.11 23.7 36
C-n4       4 . . . . . . .               5.19 25.3 50
C-n8       8 . . . . . . .               4.88 25.5 80
C-d256     . 256 . . 32 32 . .           5.75 24.5 28
C-d1024    . 1024 . . 128 128 . .        4.66 26.0 168
C-ff1024   . . 1024 . . . . .            5.12 25.4 53
C-ff4096   . . 4096 . . . . .            4.75 26.2 90
D-drop0    . . . . . . 0.0 .             5.77 24.6 .
D-drop2    . . . . . . 0.2 .             4.95 25.5 .
D-ls0      . . . . . . . 0.0             4.67 25.3 .
D-ls2      . . . . . . . 0.2             5.47 25.7 .
E-learned  . . . . . . . .               4.92 25.7 .
big        6 1024 4096 16 64 64 0.3 .    4.33 26.4 213
"""
FIELDS = (
    "num_layers",
    "d_model",
    "d_ff",
    "num_heads",
    "d_k",
    "d_v",
    "dropout",
    "label_smoothing",
)
WIDTHS = ("d_model", "d_ff", "d_k", "d_v")


def _printed():
    lines = [line.split() for line in PRINTED.strip().splitlines()]
    base = lines[0]
    for line in lines:
        own, figures = line[1:9], line[9:]
        full = [mine if mine != "." else b for mine, b in zip(own, base[1:9])]
        values = dict(zip(FIELDS, map(float, full)))
        yield line[0], values, figures


def test_the_papers_figures_are_as_printed():
    rows = list(_printed())
    assert list(PAPER) == [name for name, _, _ in rows]
    for name, _, (perplexity, bleu, parameters) in rows:
        expected = None if parameters == "." else int(parameters)
        assert PAPER[name] == (float(perplexity), float(bleu), expected)


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_the_rows_are_as_printed_times_the_scale(scale):
    rows = make_rows(list(PAPER), [], [], scale, 700)
    assert [row.name for row in rows] == list(PAPER)
    for row, (name, values, _) in zip(rows, _printed()):
        for field, value in values.items():
            factor = scale if field in WIDTHS else 1
            assert getattr(row.config, field) == value * factor, (name, field)
        learned = name == "E-learned"
        assert row.config.positions == ("learned" if learned else "sinusoidal")
        # The same budget for each, big too; no averages.
        assert row.config.train_steps == 700
        assert row.config.average_checkpoints == 0
        assert row.config.batch_tokens == 25_000


def test_a_rows_own_values_come_before_those_for_all():
    common = ["dropout=0.3", "vocabulary_size=500", "num_layers=3"]
    own = ["mine:norm=pre,num_layers=1", "wide:d_ff=80"]
    rows = make_rows(["D-drop0"], own, common, 0.5, 9)
    assert [row.name for row in rows] == ["base", "D-drop0", "mine", "wide"]
    assert [row.config.dropout for row in rows] == [0.3, 0.0, 0.3, 0.3]
    assert [row.config.num_layers for row in rows] == [3, 3, 1, 3]
    assert [row.config.d_ff for row in rows] == [1024, 1024, 1024, 40]
    assert {row.config.vocabulary_size for row in rows} == {500}
    assert rows[2].config.norm == "pre"


def test_the_flags_make_the_same_configuration():
    from trainers.training.config_flags import make_config

    for row in make_rows(["A32", "E-learned"], ["o:norm=pre"], [], 0.25, 9):
        made = make_config("base", row.assignments)
        assert dataclasses.asdict(made) == dataclasses.asdict(row.config)


@pytest.mark.parametrize(
    ("names", "own", "common", "scale", "named"),
    [
        (["A2"], [], [], 1, "A2"),
        ([], ["mine"], [], 1, "mine"),
        ([], ["../up:norm=pre"], [], 1, "../up"),
        ([], ["A1:norm=pre"], [], 1, "A1"),
        ([], ["a:norm=pre", "a:d_ff=8"], [], 1, "a:d_ff=8"),
        ([], ["a:depth=3"], [], 1, "depth"),
        ([], [], ["dropout=2"], 1, "dropout"),
        ([], ["a:train_steps=3"], [], 1, "train_steps"),
        ([], [], ["average_checkpoints=3"], 1, "average_checkpoints"),
        (["A32"], [], [], 0.01, "0.01"),
    ],
)
def test_refusals(names, own, common, scale, named):
    with pytest.raises(InputError, match=named):
        make_rows(names, own, common, scale, 9)
