"""Scores of training pairs, and the pairs that they select."""

import json
import pathlib
import typing

import numpy as np

from export.common.errors import InputError
from export.common.storage import explain_read_errors


def description_path(path: pathlib.Path) -> pathlib.Path:
    """Returns the path of the JSON file beside a file of scores."""
    return path.with_name(f"{path.name}.json")


def read_description(path: pathlib.Path) -> dict[str, typing.Any]:
    """Returns what `trainers.score_pairs` wrote about a file of scores."""
    path = description_path(path)
    with explain_read_errors(path):
        content = path.read_bytes()
    try:
        description = json.loads(content)
        description["fingerprint"]
        return description
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{path} is damaged; score the pairs again with "
            "trainers.score_pairs."
        ) from error


def select_pairs(
    path: pathlib.Path, share: float, fingerprint: str, num_pairs: int
) -> np.ndarray:
    """Returns which training pairs have the best scores, bool [pairs].

    Raises InputError unless the file has a score of each pair of the corpus
    with this fingerprint.
    """
    if read_description(path)["fingerprint"] != fingerprint:
        raise InputError(
            f"{path} has the scores of other pairs; score these with "
            "trainers.score_pairs."
        )
    with explain_read_errors(path):
        lines = path.read_text("ascii", "replace").split("\n")[:-1]
    try:
        scores = np.array([*map(float, lines)])
    except ValueError:
        scores = np.zeros(0)
    if len(scores) != num_pairs or not np.isfinite(scores).all():
        raise InputError(
            f"{path} has {len(lines):,} lines, not a number for each of the "
            f"{num_pairs:,} pairs; run trainers.score_pairs to its end, or "
            "remove the file and run it again."
        )
    # Of equal scores the first.
    order = np.argsort(-scores, kind="stable")
    is_selected = np.zeros(num_pairs, bool)
    is_selected[order[: round(share * num_pairs)]] = True
    return is_selected
