"""The command as users run it."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from tests import made_up_text
from tests.export import tiny


def run(*flags, cwd=tiny.ROOT):
    return subprocess.run(
        [sys.executable, "-m", "export.attention", *flags],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tiny.ROOT)},
    )


def page_data(html):
    found = re.search(
        r'<script type="application/json"[^>]*>(.*?)</script>', html
    )
    return json.loads(found[1])


def test_it_writes_page_and_picture_of_a_sentence(model_path, tmp_path):
    text = made_up_text.sentences()[2]
    # From another folder: the page's parts are found all the same.
    done = run(
        f"--model={model_path}",
        f"--text={text}",
        "--translation=ba bi.",
        "--output=page.html",
        "--svg=picture.svg",
        "--layer=1",
        "--heads=2",
        "--kind=cross",
        "--word=bi",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {
        "page.html",
        "picture.svg",
    }
    data = page_data((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert data["source"] == text
    assert data["translation"] == "ba bi."
    assert data["translation_term"] == "Translation, given"
    assert data["units"]["words"]["cross"] == {
        "from": ["ba", "bi.", "</s>"],
        "to": [*text.split(), "</s>"],
    }
    view = data["view"]
    assert (view["kind"], view["layer"], view["heads"]) == ("cross", 0, [1])
    assert view["word"] == {"side": "from", "index": 1}
    svg = ET.parse(tmp_path / "picture.svg").getroot()
    assert "Cross-attention, layer 1" in "".join(svg.itertext())


@pytest.mark.slow
def test_a_figure_goes_to_standard_output(model_path):
    done = run(f"--model={model_path}", "--figure=4", "--output=-")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("<!doctype html>\n")
    assert done.stdout.endswith("</html>\n")
    data = page_data(done.stdout)
    assert data["source"].startswith("The Law will never be perfect")
    assert data["translation_term"] == "Translation"
    assert [each["name"] for each in data["views"]] == [
        "Figure 4, top",
        "Figure 4, bottom",
    ]
    assert data["view"] == data["views"][0]["view"]


@pytest.mark.slow
def test_without_an_output_the_page_has_a_name_of_its_own(model_path, tmp_path):
    text = made_up_text.sentences()[3]
    done = run(f"--model={model_path}", f"--text={text}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (page,) = tmp_path.iterdir()
    assert page.name == "attention.html"
    assert page_data(page.read_text(encoding="utf-8"))["source"] == text


def error_of(*flags):
    done = run(*flags)
    assert done.returncode == 2
    assert done.stdout == ""
    [error] = [
        line for line in done.stderr.splitlines() if line.startswith("Error: ")
    ]
    return error


@pytest.mark.parametrize(
    "flags, says",
    [
        (("--output=page.html",), "Give either --text"),
        (("--text=a", "--figure=3", "--svg=p.svg"), "Give either --text"),
        (("--text=caf\udce9",), "udce9' is not UTF-8"),
        (
            ("--text=a", "--output=page.html"),
            "is an export, which has the mean",
        ),
    ],
)
def test_what_it_refuses_at_once(tmp_path, flags, says):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").touch()
    assert says in error_of(f"--model={tmp_path}", *flags)


def test_nothing_to_translate_is_told(model_path):
    error = error_of(f"--model={model_path}", "--text=")
    assert "there is nothing to translate" in error
