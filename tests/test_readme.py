"""The Python of the README and of docs/keras.md runs as it stands there."""

import pathlib
import re

import pytest

from tests import processes
from tests.export import tiny

ROOT = pathlib.Path(__file__).parents[1]


def python_blocks(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def run(tmp_path):
    """Runs Python code in a process of its own."""

    def of_code(code):
        path = tmp_path / "block.py"
        path.write_text(code, encoding="utf-8")
        return processes.run({"path": str(path)}, [], tmp_path)

    return of_code


def test_the_python_blocks_run_one_after_the_other(run, tmp_path):
    (tmp_path / "runs").mkdir()
    tiny.write(tmp_path / "runs" / "demo")
    checks = """
ids = np.array([[5, 7, 4, 9, 8]], "int32")
answer = np.asarray(classifier(ids))
behind = np.asarray(classifier(np.pad(ids, ((0, 0), (0, 9)))))
np.testing.assert_allclose(behind, answer, rtol=1e-5, atol=1e-5)
assert abs(np.asarray(classifier(ids[:, :4])) - answer).max() > 1e-3
assert tuple(best.tokens.shape) == (2, 4, 20)
assert tuple(weights["cross"][0].shape) == (2, 4, 10, 10)
"""
    done = run("\n".join([*python_blocks("README.md"), checks]))
    assert done.code == 0, done.err


@pytest.mark.slow
def test_the_page_for_keras_users_runs_from_top_to_bottom(run):
    checks = """
expected = np.asarray(copy(inputs))
np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)
error = abs(quantized_logits - expected).max() / abs(expected).max()
assert 1e-4 < error < 0.1
assert mixed.compute_dtype == also_mixed.compute_dtype == "bfloat16"
assert len(adapted.trainable_variables) == 4
keras.saving.load_model("adapted.keras", compile=False)
keras.saving.load_model("best.keras")
"""
    done = run("\n".join([*python_blocks("docs/keras.md"), checks]))
    assert done.code == 0, done.err
