"""`python -m trainers.results`, from scores.json to a page."""

import json
import pathlib
import subprocess
import sys

import pytest

from tests.trainers import commands
from trainers.reports.results_page import END

MEASURED = pathlib.Path(__file__).parents[3] / "docs/measured/scores"
_, RECORD = json.loads(
    (MEASURED / "multi30k-en-de-9000" / "scores.json").read_text("utf-8")
)
# The same as if trained in folders outside of the working folder.
OURS = RECORD | {
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


def _run(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "trainers.results", *arguments],
        cwd=folder,
        env=commands.environment(),
        capture_output=True,
        text=True,
    )
    return commands.Result(done.returncode, done.stdout, done.stderr)


def _write(folder, name, records):
    (folder / name).mkdir()
    (folder / name / "scores.json").write_text(json.dumps(records))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    again = OURS | {"score": 40.0, "step": 9500}
    _write(folder, "one", [OURS, again])
    _write(folder, "two", [OLDER])
    result = _run(folder, "--scores=one", "--scores=two/scores.json")
    assert result.code == 0, result.err
    return result.out


def cells(text):
    """The cells of each line of a page's tables."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


def test_every_score_stands_with_its_provenance(page):
    section, older = page.split("### tatoeba-en-fr, split test")
    assert section.startswith("### text:multi30k/, en to de, split test\n")
    _, _, first, second, *_ = cells(section)
    assert first[:6] == ["1", "**40.53**", "38.95 to 42.10"] + [
        *("40.64", "65.98", "4.94"),
    ]
    assert first[6:] == [
        *("5, 1.0 (length^α)", "9,000", "2:03:37"),
        *("1 cores of AMD EPYC", "2026-11-22"),
    ]
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
    published = [line[:2] for line in cells(section)]
    assert ["Transformer-Tiny", "41.02"] in published
    assert "Published" not in older
    # No folder of the machine is shown.
    for name in ("/home", "/my", "..", "runs"):
        assert name not in page
    assert cells(older)[2][1:7] == ["**44.00**"] + 5 * ["–"]


def test_only_the_text_between_the_marks_is_replaced(tmp_path):
    _write(tmp_path, "one", [OURS])
    page = tmp_path / "page.md"
    page.write_text("# Results\n\nBefore.\n")
    for score in ("40.53", "39.00"):
        result = _run(tmp_path, "--scores=one", "--output=page.md")
        assert result.code == 0, result.err
        text = page.read_text()
        assert text.startswith("# Results\n\nBefore.\n\n<!-- begin: made by")
        assert text.count(f"**{score}**") == text.count("###") == 1
        page.write_text(text + "\nAfter.\n")
        changed = json.dumps([OURS | {"score": 39.0}])
        (tmp_path / "one" / "scores.json").write_text(changed)
    assert page.read_text().count("After.") == 2


@pytest.mark.parametrize(
    ("scores", "page", "named"),
    [
        (None, None, "s.json"),
        (b"{", None, "s.json"),
        (b'{"score": 1}', None, "s.json"),
        (b'[{"score": "high"}]', None, "s.json"),
        (json.dumps([OURS]).encode(), b"caf\xe9", "page.md"),
        (json.dumps([OURS]).encode(), END.encode(), "begin"),
    ],
)
def test_refusals(tmp_path, scores, page, named):
    files = {"s.json": scores, "page.md": page}
    for name, content in files.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
    result = _run(tmp_path, "--scores=s.json", "--output=page.md")
    commands.assert_one_clear_line(result, named)
    if page is None:
        assert not (tmp_path / "page.md").exists()
    else:
        assert (tmp_path / "page.md").read_bytes() == page
