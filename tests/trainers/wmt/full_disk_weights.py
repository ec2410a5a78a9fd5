"""Writes weights on a disk with less and less room; run by test_full_disk.

python -m tests.trainers.wmt.full_disk_weights FOLDER

Prints what was raised each time, and what was left in the model directory.
"""

import os
import pathlib
import sys

from export.common.errors import InputError
from export.model_directory import ModelDirectory
from tests.trainers.helpers import minute_model


def fill_up(folder, kibibytes):
    """Leaves so many KiB of a disk to all other files on it."""
    filler = folder / "filler"
    filler.unlink(missing_ok=True)
    size = os.statvfs(folder)
    capacity = size.f_blocks * size.f_frsize
    filler.write_bytes(bytes(capacity - 1024 * kibibytes))


def main(folder):
    folder = pathlib.Path(folder)
    directory = ModelDirectory(folder / "m")
    model = minute_model(vocabulary_size=4000)
    for kibibytes in (120, 100, 80, 60, 16, 4):
        fill_up(folder, kibibytes)
        try:
            directory.write_weights(model)
        except InputError as error:
            names = [path.name for path in directory.path.iterdir()]
            print(error, "left:", names, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
