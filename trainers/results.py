"""Makes a page of results out of scores: `python -m trainers.results`.

python -m trainers.results --scores=runs/demo --scores=runs/multi30k \
    --output=docs/measured/results.md

Each figure stands with its data, command, updates, time, hardware, date and
signature, and published ones beside it. Of folders in the commands and names
of data only the last is told. What is between the two marks of --output takes
a new form; the rest of that page stays as it is.
"""

import json
import pathlib

from absl import flags

from export import command
from export.errors import InputError
from export.files.atomic import written_whole
from trainers.reports.results_page import make_page, put_between_marks

FLAGS = flags.FLAGS

flags.DEFINE_multi_string(
    "scores",
    [],
    "A model directory, or a file such as its scores.json; repeatable.",
)
flags.DEFINE_string(
    "output", None, "The page to renew; standard output by default."
)


def main(arguments):
    """Writes the page."""
    del arguments
    if not FLAGS.scores:
        raise InputError(
            "Give --scores, a model directory that was scored; several may "
            "be given."
        )
    records = [each for path in FLAGS.scores for each in _read(path)]
    page = make_page(records)
    if not FLAGS.output:
        print(page)
        return
    path = pathlib.Path(FLAGS.output)
    old = _text(path) if path.exists() else ""
    with written_whole(path) as temporary:
        temporary.write_text(put_between_marks(old, page), encoding="utf-8")
    print(f"Wrote {len(records)} results into {path}.")


def _read(name):
    path = pathlib.Path(name)
    if path.is_dir():
        path /= "scores.json"
    try:
        records = json.loads(_text(path))
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}.") from error
    is_list = isinstance(records, list)
    if not is_list or not all(map(_is_score, records)):
        raise InputError(
            f"{path} does not hold scores; a model directory that "
            "trainers.wmt or trainers.evaluate scored was expected."
        )
    return records


def _is_score(record):
    if not isinstance(record, dict):
        return False
    texts = all(
        isinstance(record.get(name), str)
        for name in ("signature", "dataset", "split")
    )
    return texts and isinstance(record.get("score"), (int, float))


def _text(path):
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(
            f"There is no {path}; score the model with trainers.evaluate first."
        ) from None
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8.") from error


if __name__ == "__main__":
    command.run(main, any_backend=True)
