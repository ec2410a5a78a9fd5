"""Compares the outputs of an export with those of its model directory.

The outputs of a text are its content, which should be equal, and its scores,
which may differ by rounding.
"""

import dataclasses
import os
import subprocess
import sys
import typing
from collections.abc import Iterable, Mapping

import numpy as np

from export.common.errors import InputError


def check_export(
    model_dir: str | os.PathLike, export: str | os.PathLike
) -> None:
    """Runs export.check in a process without Keras, like a server's.

    Raises InputError if the export fails.
    """
    print("Checking the export before it gets its name:", flush=True)
    arguments = ["export.check", f"--model_dir={model_dir}", "--", str(export)]
    process = subprocess.run(
        [sys.executable, "-m", *arguments], stderr=sys.stderr
    )
    if process.returncode:
        raise InputError(
            "The export did not pass export.check, see its error above; "
            "nothing was written. --nocheck would skip the check."
        )


class Tolerance(typing.NamedTuple):
    """Differences that are allowed, since rounding depends on the batch."""

    absolute: float  # of scores
    relative: float  # to the score, added to `absolute`
    different_share: float  # of texts with other content


# By `quantization`: a different last bit may round an activation to another of
# 255 values.
TOLERANCES = {
    None: Tolerance(1e-4, 1e-5, 0.0),
    "int8": Tolerance(0.05, 0.02, 0.1),
}
# An ONNX file is compared with float32, and the model is unsure of texts of
# random tokens.
ONNX_TOLERANCES = {
    None: TOLERANCES[None],
    "int8": Tolerance(0.5, 0.05, 0.7),
}


@dataclasses.dataclass
class Comparison:
    """Compares the outputs of one signature.

    Attributes:
        tolerance: Tolerance of the comparison.
        num_texts: number of compared texts.
        num_equal: number of texts with exactly the expected content.
        max_difference: largest difference of scores of equal content.
        first_different: description of the first text with other content, or
            None.
        first_inexact: the same, for the first one with equal content, but
            scores beyond the tolerance.
    """

    tolerance: Tolerance
    num_texts: int = 0
    num_equal: int = 0
    max_difference: float = 0.0
    first_different: str | None = None
    first_inexact: str | None = None

    @property
    def error(self) -> str | None:
        """Description of a text that must not differ, or None."""
        num_allowed = self.tolerance.different_share * self.num_texts
        if self.num_texts - self.num_equal > num_allowed:
            return self.first_different
        return self.first_inexact

    def add(
        self,
        texts: Iterable[str],
        outputs: Mapping[str, np.ndarray],
        expected_outputs: Mapping[str, np.ndarray],
    ) -> None:
        """Compares two dicts of arrays with a row for each text."""
        rows, expected_rows = (
            [dict(zip(each, row)) for row in zip(*each.values())]
            for each in (outputs, expected_outputs)
        )
        for each in zip(texts, rows, expected_rows, strict=True):
            self._add_text(*each)

    def _add_text(self, text, row, expected_row):
        content, scores = _split_scores(row)
        expected, expected_scores = _split_scores(expected_row)
        self.num_texts += 1
        if content != expected or scores.shape != expected_scores.shape:
            self.first_different = self.first_different or (
                f"expected {expected}, got {content} for {text!r}"
            )
            return
        self.num_equal += 1
        differences = np.abs(scores - expected_scores)
        relative = self.tolerance.relative * np.abs(expected_scores)
        largest = float(differences.max(initial=0.0))
        self.max_difference = max(self.max_difference, largest)
        if not (differences <= self.tolerance.absolute + relative).all():
            self.first_inexact = self.first_inexact or (
                f"expected scores {expected_scores.tolist()}, got "
                f"{scores.tolist()} for {text!r}"
            )


def _split_scores(row):
    """Returns the content of a text's outputs, a dict, and its scores [N]."""
    content, scores = {}, []
    # Padding is as long as the longest text of a batch.
    lengths = {
        side: np.count_nonzero(row[f"{side}_tokens"])
        for side in ("source", "target")
        if f"{side}_tokens" in row
    }
    for name, value in sorted(row.items()):
        if lengths and np.ndim(value):
            side = "source" if name.startswith("source") else "target"
            value = value[: lengths[side]]
        if name == "alignment":
            value = value.argmax(axis=-1)
        elif name == "ids":
            value = [np.trim_zeros(ids, "b") for ids in value]
        if getattr(value, "dtype", None) == np.float32:
            scores.append(np.ravel(value))
        else:
            content[name] = _to_python(value)
    return content, np.concatenate([*scores, []])


def _to_python(value):
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, list):
        return [*map(_to_python, value)]
    return _to_python(value.tolist()) if hasattr(value, "tolist") else value
