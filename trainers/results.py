"""Writes a page of results from scores: `python -m trainers.results`.

python -m trainers.results --scores=runs/demo --scores=runs/multi30k \
    --output=docs/measured/results.md

Lists each score and how it was computed, and replaces only the text between
the two marks in --output.
"""

import json
import pathlib

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.common.storage import explain_read_errors, write_bytes
from trainers.reports.results_page import (
    make_results_page,
    replace_between_marks,
)

FLAGS = flags.FLAGS

flags.DEFINE_multi_string(
    "scores",
    None,
    "A model directory, or a file such as its scores.json; repeatable.",
    required=True,
)
flags.DEFINE_string(
    "output", None, "The page to update; standard output by default."
)


def main(arguments: list[str]) -> None:
    """Writes the page."""
    del arguments
    records = []
    for path in FLAGS.scores:
        records += _read_scores(path)
    results = make_results_page(records)
    if not FLAGS.output:
        print(results)
        return
    path = pathlib.Path(FLAGS.output)
    page = _read_text(path) if path.exists() else ""
    page = replace_between_marks(page, results)
    write_bytes(path, page.encode("utf-8"))
    print(f"Wrote {len(records)} results to {path}.")


def _read_scores(name):
    path = pathlib.Path(name)
    if path.is_dir():
        path /= "scores.json"
    try:
        records = json.loads(_read_text(path))
        for record in records:
            record["signature"] + record["dataset"] + record["split"]
            record["score"] + 0.0
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{path} has no scores ({error!r}); expected a model directory "
            "scored by trainers.wmt or trainers.evaluate."
        ) from error
    return records


def _read_text(path):
    try:
        with explain_read_errors(path):
            return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8; use another file.") from error


if __name__ == "__main__":
    command.run(main, any_backend=True)
