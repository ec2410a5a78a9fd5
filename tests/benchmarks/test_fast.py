import re

import pytest

from export.model_directory import ModelDirectory
from tests.benchmarks import decoding
from tests.export import tiny
from tests.export.translators.made_up_shortlist import made_up_shortlist
from tests.trainers import cipher


# An export takes long to make: not of both beams.
@pytest.mark.slow
@pytest.mark.parametrize("beams, served", [("4,1", False), ("4", True)])
def test_a_teacher_beside_its_student(tmp_path, beams, served):
    pytest.importorskip("ctranslate2")
    run = {
        "dataset": cipher.write(tmp_path),
        "source_language": cipher.SOURCE,
        "target_language": cipher.TARGET,
    }
    for name, layers in (("teacher", 2), ("student", 1)):
        tiny.write(tmp_path / name, num_decoder_layers=layers)
        ModelDirectory(tmp_path / name).write_run(run)
    tokenizer = ModelDirectory(tmp_path / "teacher").load_tokenizer()
    (tmp_path / "lex").write_text(made_up_shortlist(tokenizer), "utf-8")
    result = decoding.run(
        "fast",
        f"--teacher={tmp_path / 'teacher'}",
        f"--student={tmp_path / 'student'}",
        f"--target_pieces={tmp_path / 'toy.train.xx'}",
        *(f"--shortlist={tmp_path / 'lex'}", "--shortlist_size=40"),
        *(f"--beams={beams}", f"--served={served}", "--compiled"),
        *("--sentences=4", "--rounds=1"),
    )
    assert result.code == 0, result.err
    rows = re.findall(r"\| ([\w, ]+) \| (\d) \| [\d.]+ \| (\d*) \|", result.out)
    names = [
        *("teacher", "teacher, target pieces", "teacher, shortlist"),
        *("teacher, served", "teacher, shortlist, served"),
        "teacher, shortlist, compiled",
        *("student", "student, target pieces", "student, shortlist"),
        *("student, served", "student, shortlist, served"),
        "student, shortlist, compiled",
        "teacher, CTranslate2 float32",
        *("student, CTranslate2 float32", "student, CTranslate2 int8"),
    ]
    if not served:
        names = [name for name in names if not name.endswith("served")]
    assert [row[:2] for row in rows] == [
        (name, beam) for beam in beams.split(",") for name in names
    ]
    for name, _, together in rows:
        assert bool(together) == (not name.endswith("compiled"))
    assert "+0.00 (+0.00 to +0.00)" in result.out
