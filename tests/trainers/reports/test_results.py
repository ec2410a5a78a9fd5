"""`python -m trainers.results`, from scores.json to a page."""

import json
import subprocess
import sys

import pytest

from tests.trainers import commands

OURS = {
    "metric": "BLEU",
    "score": 41.1234,
    "signature": "nrefs:1|tok:none|version:2.6.0",
    "confidence_95": [40.1, 42.2],
    "bootstrap": "bs:1000|seed:12345",
    "reference_length": 12_103,
    "chrf": {"score": 66.123, "signature": "nrefs:1|nc:6"},
    "compound_split_bleu": {"score": 41.5, "signature": "hyphens:split|x"},
    "perplexity": {"per_token": 4.567, "tokens": 9000, "left_out": 0},
    "sentences": 1000,
    "references": 1000,
    "dataset": "text:/home/me/multi30k/",
    "source_language": "en",
    "target_language": "de",
    "split": "test",
    "beam_size": 5,
    "alpha": 1.0,
    "length_penalty": "power",
    "step": 8000,
    "weights": "average of the checkpoints of steps 7000, 8000",
    "parameters": 2_568_192,
    "training": {
        "command": "python -m trainers.wmt --dataset=text:/home/me/multi30k/ "
        "--model_dir=/home/me/runs/seed1 '--data_dir=/my files' --seed=1",
        "runs": 2,
        "steps": 8000,
        "seconds": 3725.0,
        "hardware": "2 cores of X",
        "date": "2026-01-01",
    },
    "command": "python -m trainers.evaluate --model_dir=../runs/seed1 "
    "--tokenized",
    "hardware": "1 core of Y",
    "date": "2026-01-02",
}
# As entries were before they told more.
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
    again = OURS | {"score": 40.0, "step": 9000}
    _write(folder, "one", [OURS, again])
    _write(folder, "two", [OLDER])
    result = _run(folder, "--scores=one", "--scores=two/scores.json")
    assert result.code == 0, result.err
    return result.out


def test_every_figure_stands_with_how_it_was_made(page):
    section, older = page.split("### tatoeba-en-fr, split test")
    assert section.startswith("### text:multi30k/, en to de, split test\n")
    assert (
        "| 1 | **41.12** | 40.10 to 42.20 | 41.50 | 66.12 | 4.57 | "
        "5, 1.0 (length^α) | 8,000 | 1:02:05 | 2 cores of X | 2026-01-02 |\n"
    ) in section
    # Not all of its updates were timed.
    assert "| 9,000 | 1:02:05 for 8,000 updates |" in section
    assert ("1. `python -m trainers.wmt --dataset=text:multi30k/ ") in section
    assert "`python -m trainers.evaluate --model_dir=seed1 --tokenized`" in (
        section
    )
    assert "2,568,192 parameters; 1,000 sentences, 1,000 references" in section
    assert "- BLEU of 1, 2: `nrefs:1|tok:none|version:2.6.0`" in section
    assert "- chrF of 1, 2: `nrefs:1|nc:6`" in section
    assert "- compound-split of 1, 2: `hyphens:split|x`" in section
    assert "| 1 | **44.00** | – | – | – | – |" in older


def test_published_figures_stand_beside_it_where_the_set_is_known(page):
    section, older = page.split("### tatoeba-en-fr, split test")
    assert (
        "| Transformer-Tiny | 41.02 | lower-cased, Moses-tokenised; sacrebleu "
        "--tokenize none | Wu et al. 2021, arXiv 2105.14462 |"
    ) in section
    assert "Published" not in older


def test_no_folder_of_the_machine_is_told(page):
    for name in ("/home", "/my", "..", "runs"):
        assert name not in page


def test_only_what_is_between_the_marks_takes_a_new_form(tmp_path):
    _write(tmp_path, "one", [OURS])
    page = tmp_path / "page.md"
    page.write_text("# Results\n\nBefore.\n")
    for score in ("41.12", "39.00"):
        result = _run(tmp_path, "--scores=one", "--output=page.md")
        assert result.code == 0, result.err
        text = page.read_text()
        assert text.startswith("# Results\n\nBefore.\n\n<!-- begin: made by")
        assert text.count(f"**{score}**") == text.count("###") == 1
        page.write_text(text + "\nAfter.\n")
        changed = json.dumps([OURS | {"score": 39.0}])
        (tmp_path / "one" / "scores.json").write_text(changed)
    assert page.read_text().count("After.") == 2
    page.write_bytes(b"caf\xe9")
    result = _run(tmp_path, "--scores=one", "--output=page.md")
    commands.assert_one_clear_line(result, "page.md is not UTF-8")
    assert page.read_bytes() == b"caf\xe9"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "There is no"),
        ("{", "is not JSON"),
        ('{"score": 1}', "does not hold scores"),
        ('[{"score": "high"}]', "does not hold scores"),
    ],
)
def test_what_is_no_scores_file_is_said_in_one_line(tmp_path, content, message):
    if content is not None:
        (tmp_path / "s.json").write_text(content)
    result = _run(tmp_path, "--scores=s.json", "--output=page.md")
    commands.assert_one_clear_line(result, message)
    assert not (tmp_path / "page.md").exists()


def test_half_a_pair_of_marks_is_not_guessed_at(tmp_path):
    _write(tmp_path, "one", [OURS])
    page = tmp_path / "page.md"
    page.write_text("<!-- end: made by python -m trainers.results -->\n")
    result = _run(tmp_path, "--scores=one", "--output=page.md")
    commands.assert_one_clear_line(result, "or neither")
    assert page.read_text().count("\n") == 1
