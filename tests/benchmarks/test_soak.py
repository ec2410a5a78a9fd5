"""benchmarks/soak.py with tiny models, for a minute."""

import ast

import pytest

from tests import made_up_text
from tests.benchmarks.commands import run_alone
from tests.export import commands, tiny


@pytest.mark.slow
def test_all_answers_are_right(tmp_path):
    text = tmp_path / "text"
    text.write_text("\n".join(made_up_text.sentences()[:30]), "utf-8")
    exports = [tmp_path / f"export{seed}" for seed in range(5)]
    for seed, path in enumerate(exports):
        tiny.write(tmp_path / f"model{seed}", seed=seed)
        code, _, err = commands.run(
            *("export.onnx", None, [], "--nocheck", "--alignments"),
            *(f"--model_dir={tmp_path}/model{seed}", f"--output_dir={path}"),
        )
        assert code == 0, err
    result = run_alone(
        "soak",
        *(f"--model={path}" for path in exports[:4]),
        f"--replacement={exports[4]}",
        f"--text={text}",
        "--sentences=30",
        "--minutes=1",
    )
    assert result.code == 0, result.err
    (line,) = [x for x in result.out.splitlines() if x.startswith("{")]
    counts = ast.literal_eval(line)
    assert counts["answers"] > 30
    assert counts["refused"] > 0 and counts["left"] > 0
    assert not counts.keys() & {"wrong", "lost"}, result.out
