"""The command export.attention."""

import json
import re
import xml.etree.ElementTree as ET

import pytest

from tests import in_process, made_up_text


def page_data(html):
    found = re.search(
        r'<script type="application/json"[^>]*>(.*?)</script>', html
    )
    return json.loads(found[1])


def test_it_writes_page_and_picture_of_a_sentence(model_path, tmp_path):
    text = made_up_text.sentences()[2]
    flags = [
        *(f"--model={model_path}", f"--text={text}", "--translation=ba bi."),
        *("--output=page.html", "--svg=picture.svg"),
        *("--layer=1", "--heads=2", "--kind=cross", "--word=bi"),
    ]
    done = in_process.run("export.attention", flags, tmp_path)
    assert done.code == 0, done.err
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
def test_a_figure_and_the_default_page(model_path, tmp_path):
    flags = [f"--model={model_path}", "--figure=4", "--output=-"]
    done = in_process.run("export.attention", flags, tmp_path)
    assert done.code == 0, done.err
    assert done.out.startswith("<!doctype html>\n")
    assert done.out.endswith("</html>\n")
    data = page_data(done.out)
    assert data["source"].startswith("The Law will never be perfect")
    assert data["translation_term"] == "Translation"
    names = [each["name"] for each in data["views"]]
    assert names == ["Figure 4, top", "Figure 4, bottom"]
    assert data["view"] == data["views"][0]["view"]
    flags = [f"--model={model_path}", "--text=ba"]
    assert in_process.run("export.attention", flags, tmp_path).code == 0
    page = (tmp_path / "attention.html").read_text(encoding="utf-8")
    assert page_data(page)["source"] == "ba"


def test_refusals_are_one_line(tmp_path, model_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").touch()
    for path, flags, name in (
        (tmp_path, ["--output=page.html"], "--text"),
        (tmp_path, ["--text=a", "--figure=3", "--svg=p.svg"], "--figure"),
        (tmp_path, ["--text=caf\udce9"], "UTF-8"),
        (tmp_path, ["--text=a", "--output=page.html"], "model directory"),
        (model_path, ["--text="], "sentence"),
    ):
        flags = [f"--model={path}", *flags]
        done = in_process.run("export.attention", flags, tmp_path)
        assert (done.code, done.out) == (2, "")
        (error,) = done.err.splitlines()
        assert error.startswith("Error: ") and name in error
        assert [each.name for each in tmp_path.iterdir()] == ["1"]
