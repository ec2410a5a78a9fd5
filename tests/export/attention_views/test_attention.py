"""The command export.attention."""

import json
import re
import xml.etree.ElementTree as ET

from tests import made_up_text
from tests.export import commands


def run(model, *flags):
    return commands.run("export.attention", model, [], *flags)


def page_data(html):
    found = re.search(
        r'<script type="application/json"[^>]*>(.*?)</script>', html
    )
    return json.loads(found[1])


def test_it_writes_page_and_picture_of_a_sentence(model_path, tmp_path):
    text = made_up_text.sentences()[2]
    page, picture = tmp_path / "page.html", tmp_path / "picture.svg"
    code, _, err = run(
        *(model_path, f"--text={text}", "--translation=ba bi."),
        *(f"--output={page}", f"--svg={picture}"),
        *("--layer=1", "--heads=2", "--kind=cross", "--word=bi"),
    )
    assert code == 0, err
    data = page_data(page.read_text(encoding="utf-8"))
    assert (data["source"], data["translation"]) == (text, "ba bi.")
    assert data["units"]["words"]["cross"] == {
        "from": ["ba", "bi.", "</s>"],
        "to": [*text.split(), "</s>"],
    }
    view = data["view"]
    assert (view["kind"], view["layer"], view["heads"]) == ("cross", 0, [1])
    assert view["word"] == {"side": "from", "index": 1}
    svg = ET.parse(picture).getroot()
    assert "Cross-attention, layer 1" in "".join(svg.itertext())


def test_a_figure_goes_to_standard_output(model_path):
    flags = "--figure=4", "--output=-", "--translation=ba"
    code, out, err = run(model_path, *flags)
    assert code == 0, err
    assert (out[0], out[-1]) == ("<!doctype html>", "</html>")
    data = page_data("\n".join(out))
    assert data["source"].startswith("The Law will never be perfect")
    assert data["view"] == data["views"][0]["view"]


def test_refusals_are_one_line(tmp_path, model_path):
    output = f"--output={tmp_path / 'page.html'}"
    for path, flags, name in (
        (tmp_path, ["--text=a", "--figure=3"], "--figure"),
        (tmp_path, ["--text=a"], "model directory"),
        (model_path, ["--text="], "sentence"),
    ):
        code, out, err = run(path, output, *flags)
        assert (code, out) == (2, [])
        (error,) = [line for line in err if line.startswith("Error: ")]
        assert name in error
        assert list(tmp_path.iterdir()) == []
