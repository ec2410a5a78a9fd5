"""`python -m trainers.results`, from scores.json to a page."""

import json
import pathlib

import pytest

from export.common.errors import InputError
from tests.trainers import commands
from trainers.reports.results_page import (
    BEGIN,
    END,
    make_results_page,
    replace_between_marks,
)

MEASURED = pathlib.Path(__file__).parents[3] / "docs/measured/scores"
_, RECORD = json.loads(
    (MEASURED / "multi30k-en-de-9000" / "scores.json").read_text("utf-8")
)
# The same as if trained in folders outside of the working folder.
MOVED = RECORD | {
    "dataset": "text:/home/me/multi30k/",
    "training": RECORD["training"]
    | {
        "command": "python -m trainers.wmt --dataset=text:/home/me/multi30k/ "
        "--model_dir=/home/me/runs/seed1 '--data_dir=/my files' --seed=1"
    },
    "command": "python -m trainers.evaluate --model_dir=../runs/seed1 "
    "--tokenized",
}
# An entry with nothing but what every score has.
OLDER = {
    "metric": "BLEU",
    "score": 44.0,
    "signature": "nrefs:var|tok:13a",
    "dataset": "tatoeba-en-fr",
    "split": "test",
}


def cells(text):
    """The cells of each line of a page's tables."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


def test_every_score_stands_with_its_provenance():
    noise = {"noise": {"typos": {"score": 31.25}}}
    again = MOVED | {"score": 40.0, "step": 9500} | noise
    page = make_results_page([MOVED, again, OLDER])
    section, older = page.split("### tatoeba-en-fr, split test")
    assert section.startswith("### text:multi30k/, en to de, split test\n")
    _, _, first, second, *_ = cells(section)
    assert first[:6] == ["1", "**40.53**", "38.95 to 42.10"] + [
        *("40.64", "65.98", "4.94"),
    ]
    assert first[6:] == [
        *("5, 1.0 (length^α)", "9,000", "2:03:37"),
        *("1 cores of AMD EPYC", "2026-11-22", "–"),
    ]
    assert second[-1] == "31.25"
    # Not all of its updates were timed.
    assert second[7:9] == ["9,500", "2:03:37 for 9,000 updates"]
    for fact in (
        "1. `python -m trainers.wmt --dataset=text:multi30k/ ",
        "`python -m trainers.evaluate --model_dir=seed1 --tokenized`",
        "2,568,192 parameters; 1,000 sentences; 1,000 references",
        "BLEU `nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:2.6.0`",
        "chrF `nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0`",
        "compound-split `quotes:plain|pretok:none|hyphens:split|nrefs:1|",
    ):
        assert fact in section
    # No folder of the machine is shown.
    for name in ("/home", "/my", "..", "runs"):
        assert name not in page
    assert cells(older)[2][1:7] == ["**44.00**"] + 5 * ["–"]


def test_only_the_text_between_the_marks_is_replaced():
    page = replace_between_marks("# Results\n\nBefore.\n", "one")
    assert page == f"# Results\n\nBefore.\n\n{BEGIN}\n\none\n\n{END}\n"
    page = replace_between_marks(page + "\nAfter.\n", "two")
    assert page.count("two") == page.count("After.") == page.count(BEGIN) == 1
    assert "one" not in page
    for marks in (BEGIN, END, END + BEGIN):
        with pytest.raises(InputError, match="begin"):
            replace_between_marks(marks, "text")


def test_the_command(tmp_path):
    command = commands.Worker("trainers.results")
    scores, page = tmp_path / "s.json", tmp_path / "page.md"
    flags = ("--scores=s.json", "--output=page.md")
    for content, before, named in (
        (b"{", b"page", "s.json"),
        (b'[{"score": "high"}]', b"page", "s.json"),
        (json.dumps([RECORD]).encode(), b"caf\xe9", "page.md"),
    ):
        scores.write_bytes(content)
        page.write_bytes(before)
        result = command.run(*flags, folder=tmp_path)
        commands.assert_one_clear_line(result, named)
        assert page.read_bytes() == before
    page.unlink()
    (tmp_path / "scores.json").write_text(json.dumps([OLDER]))
    result = command.run("--scores=.", *flags, folder=tmp_path)
    command.close()
    assert result.code == 0, result.err
    assert "**44.00**" in page.read_text()
    assert "**40.53**" in page.read_text()
