"""How long sentence pairs are: a table of counts, without any text."""

import csv
import pathlib

import numpy as np

from export.command import InputError

# Tatoeba English-German (169,813 pairs) in 37,000 joint BPE pieces trained on
# it, the end id counted.
DEFAULT_TABLE = pathlib.Path(__file__).with_name("tatoeba_en_de_lengths.csv")
_COLUMNS = ["source", "target", "pairs"]


def read_lengths(path):
    """Returns the two lengths of every pair.

    Args:
        path: CSV file with the columns source, target (lengths in tokens,
            the end id counted) and pairs (how many have these lengths).

    Returns:
        int64 [pairs] of source and int64 [pairs] of target lengths.

    Raises:
        InputError: there is no such file, or it is not such a table.
    """
    try:
        with pathlib.Path(path).open(encoding="utf-8", newline="") as stream:
            header, *rows = csv.reader(stream)
            table = np.array(rows, np.int64)
    except (OSError, ValueError) as error:
        raise _not_a_table(path, error) from error
    if header != _COLUMNS or table.ndim != 2 or table.min() < 1:
        raise _not_a_table(path, "other columns, or a number below 1")
    source, target, pairs = table.T
    return np.repeat(source, pairs), np.repeat(target, pairs)


def _not_a_table(path, reason):
    return InputError(
        f"Cannot use {path} as a table of lengths ({reason}); it must be a "
        "CSV file with the header source,target,pairs and whole numbers from "
        "1 on."
    )
