"""The README's Python runs as it stands there."""

import pathlib
import re
import subprocess

import pytest

from tests import processes
from tests.export import tiny

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def run(tmp_path):
    """Runs Python code in a process of its own."""

    def of_code(code):
        path = tmp_path / "block.py"
        path.write_text(code, encoding="utf-8")
        return processes.run({"path": str(path)}, [], tmp_path)

    return of_code


def test_the_python_blocks_run_one_after_the_other(run):
    blocks = BLOCKS[:2]
    checks = """
ids = np.array([[5, 7, 4, 9, 8]], "int32")
answer = np.asarray(classifier(ids))
behind = np.asarray(classifier(np.pad(ids, ((0, 0), (0, 9)))))
np.testing.assert_allclose(behind, answer, rtol=1e-5, atol=1e-5)
assert abs(np.asarray(classifier(ids[:, :4])) - answer).max() > 1e-3
assert tuple(best.tokens.shape) == (2, 4, 20)
assert tuple(weights["cross"][0].shape) == (2, 4, 10, 10)
"""
    done = run("\n".join([*blocks, checks]))
    assert done.code == 0, done.err


@pytest.mark.slow
def test_the_lines_of_keras_hub_run(run, tmp_path):
    """On a model directory where the README has one."""
    tiny.write(tmp_path / "runs" / "demo", num_layers=1)
    assert len(BLOCKS) == 3
    checks = "assert isinstance(task.generate('Hi!'), str)"
    done = run("\n".join([BLOCKS[2], checks]))
    assert done.code == 0, done.err
    assert (tmp_path / "presets" / "demo" / "task.json").exists()


@pytest.mark.slow
def test_the_one_liner_prints_the_parameter_counts(run):
    code = re.search(r'python -c "\n(.*?)"\n', README, re.DOTALL)[1]
    done = run(code)
    counts = dict(line.split() for line in done.out.splitlines())
    assert counts.pop("base") == "65,110,016"
    millions = {
        name: round(int(count.replace(",", "")) / 1e6)
        for name, count in counts.items()
    }
    assert millions == {
        "B16": 58,
        "B32": 60,
        "C-n2": 36,
        "C-n4": 50,
        "C-n8": 80,
        "C-d256": 28,
        "C-d1024": 168,
        "C-ff1024": 53,
        "C-ff4096": 90,
    }


@pytest.mark.parametrize(
    "script", ["bin/demo", "bin/test", "bin/environment", ".ci/run"]
)
def test_the_scripts_parse(script):
    subprocess.run(["bash", "-n", str(ROOT / script)], check=True)
