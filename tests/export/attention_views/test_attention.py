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
        *(f"--model={model_path}", f"--text={text}", "--translation=ba bi."),
        *("--output=page.html", "--svg=picture.svg"),
        *("--layer=1", "--heads=2", "--kind=cross", "--word=bi"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"page.html", "picture.svg"}
    data = page_data((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert (data["source"], data["translation"]) == (text, "ba bi.")
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
    names = [each["name"] for each in data["views"]]
    assert names == ["Figure 4, top", "Figure 4, bottom"]
    assert data["view"] == data["views"][0]["view"]


@pytest.mark.slow
def test_the_page_has_a_name_by_default(model_path, tmp_path):
    done = run(f"--model={model_path}", "--text=ba", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "attention.html").read_text(encoding="utf-8")
    assert page_data(page)["source"] == "ba"


@pytest.mark.parametrize(
    "flags, name",
    [
        (["export", "--output=page.html"], "--text"),
        (["export", "--text=a", "--figure=3", "--svg=p.svg"], "--figure"),
        (["export", "--text=caf\udce9"], "UTF-8"),
        (["export", "--text=a", "--output=page.html"], "model directory"),
        (["model", "--text="], "sentence"),
    ],
)
def test_refusals_are_one_line(tmp_path, model_path, flags, name):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").touch()
    path = {"export": tmp_path, "model": model_path}[flags[0]]
    done = run(f"--model={path}", *flags[1:], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    [error] = [
        line for line in done.stderr.splitlines() if line.startswith("Error: ")
    ]
    assert name in error
    assert [each.name for each in tmp_path.iterdir()] == ["1"]
