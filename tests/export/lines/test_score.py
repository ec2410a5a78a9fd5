"""The command that scores given translations."""

import numpy as np

from tests import made_up_text
from tests.export import commands

SOURCES = [*made_up_text.sentences()[:9], "", "ba ka."]


def score(model, sources, translations, folder):
    path = folder / "translations"
    path.write_text("".join(f"{line}\n" for line in translations))
    return commands.run(
        "export.score", model, sources, f"--translations={path}"
    )


def test_each_pair_has_its_score_in_order(exported, translator, tmp_path):
    translations = [*(each.text for each in translator.translate(SOURCES))]
    translations[9:] = ["ka", ""]
    code, lines, err = score(exported, SOURCES, translations, tmp_path)
    assert (code, err) == (0, [])
    expected = translator.score(SOURCES, translations)
    np.testing.assert_allclose(
        [float(line) for line in lines], expected, atol=1e-4
    )
    assert len(set(lines)) > 8


def test_files_of_two_lengths_are_refused(exported, tmp_path):
    code, lines, err = score(exported, SOURCES, SOURCES[:3], tmp_path)
    assert (code, lines) == (2, [])
    assert "--input has a line 4 and the other file has not" in err[0]


def test_bytes_that_are_not_text_are_refused(exported, tmp_path):
    path = tmp_path / "bad"
    path.write_bytes(b"ba\n\xff\n")
    code, _, err = commands.run(
        "export.score", exported, ["ba", "ka"], f"--translations={path}"
    )
    assert code == 2
    assert "Line 2 of --translations is not UTF-8" in err[0]
