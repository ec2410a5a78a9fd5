"""docs/own_text.ipynb: its committed outputs, and a run of all its cells."""

import pathlib
import re

import nbclient
import nbformat
import pytest

ROOT = pathlib.Path(__file__).parents[1]
PATH = ROOT / "docs" / "own_text.ipynb"
TRAINING_TIME = "--train_minutes=5"


def read_notebook():
    """Returns the notebook, and its code cells by id."""
    notebook = nbformat.read(PATH, nbformat.NO_CONVERT)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return notebook, {cell.id: cell for cell in code}


def printed(cell):
    outputs = [each for each in cell.outputs if each.output_type == "stream"]
    return "".join(each.text for each in outputs if each.name == "stdout")


def test_the_committed_outputs_are_those_of_one_run():
    notebook, cells = read_notebook()
    nbformat.validate(notebook)
    counts = [cell.execution_count for cell in cells.values()]
    assert counts == [*range(1, len(cells) + 1)]
    silent = {name for name, cell in cells.items() if not cell.outputs}
    assert silent == {"setup", "stop"}
    outputs = [each for cell in cells.values() for each in cell.outputs]
    assert "error" not in {each.output_type for each in outputs}
    # TensorFlow's log.
    assert "stderr" not in {each.get("name") for each in outputs}
    check_server(cells)


def test_the_committed_file_is_small_and_of_no_machine():
    text = PATH.read_text("utf-8")
    assert len(text) < 60_000
    folders = "home|root|tmp|work|opt|var|mnt|usr|Users|private"
    assert re.findall(rf"(?<![\w.])/(?:{folders})/", text) == []


@pytest.mark.slow
def test_all_cells_run(tmp_path):
    # A checkout that may be written to.
    for package in ("trainers", "export", "keras_transformer"):
        (tmp_path / package).symlink_to(ROOT / package)
    (tmp_path / "docs").mkdir()
    notebook, cells = read_notebook()
    for cell in cells.values():
        cell.outputs = []
    assert cells["fit"].source.count(TRAINING_TIME) == 1
    cells["fit"].source = cells["fit"].source.replace(
        TRAINING_TIME, "--train_minutes=0.3"
    )
    nbclient.NotebookClient(
        notebook,
        timeout=600,
        resources={"metadata": {"path": str(tmp_path / "docs")}},
    ).execute()
    check_server(cells)
    assert "BLEU|nrefs:1|" in printed(cells["evaluate"])
    assert "Cross-attention" in cells["draw"].outputs[-1].data["image/svg+xml"]
    assert (tmp_path / "runs/own_text/export/1/saved_model.pb").exists()


def check_server(cells):
    """The server's translations are those of the translator."""
    texts = re.findall(r"-> (.+)", printed(cells["translator"]))
    assert len(texts) == 3
    answers = printed(cells["ask"]).splitlines()
    assert answers == [*texts, "Equal: True"]
