"""Chooses among translations of a sentence by something else than the search.

Minimum Bayes risk decoding (Eikema and Aziz 2022) prefers the translation that
is most like all others, here by chrF. It needs no other model.
"""

import collections
import functools
import math
import shlex
import subprocess
import typing
from collections.abc import Callable, Sequence

import numpy as np

from export.common.errors import InputError
from export.translators.translation import Translation

Reranker: typing.TypeAlias = Callable[
    [Sequence[str], Sequence[Sequence[Translation]]], list[list[Translation]]
]

# Those of chrF (Popović 2015).
_MAX_ORDER, _BETA = 6, 2.0


def rerank_by_mbr(
    texts: Sequence[str], rows: Sequence[Sequence[Translation]]
) -> list[list[Translation]]:
    """Returns lists of Translations, those most like the others first.

    `rows` has the Translations of each of `texts`, which are not used. Equal
    translations, such as samples, count as often as they occur.
    """
    del texts
    return [
        _sort(row, expected_chrf([each.text for each in row])) for row in rows
    ]


def expected_chrf(texts: Sequence[str]) -> np.ndarray:
    """Returns the mean chrF of each text beside all texts, float64 [N].

    As sacreBLEU computes it for sentences, from 0 to 1.
    """
    counts = collections.Counter(texts)
    weights = np.array([*counts.values()]) / len(texts)
    matrix = _chrf_matrix([*counts])
    expected = dict(zip(counts, (matrix @ weights).tolist()))
    return np.array([expected[text] for text in texts])


def _chrf_matrix(texts):
    """Returns chrF of each text with each other as its reference [N, N]."""
    precision = recall = num_orders = 0.0
    letters = ["".join(text.split()) for text in texts]
    for order in range(1, _MAX_ORDER + 1):
        ids = {}
        ngrams = [
            [
                ids.setdefault(text[i : i + order], len(ids))
                for i in range(len(text) - order + 1)
            ]
            for text in letters
        ]
        counts = np.stack(
            [np.bincount(row, minlength=max(len(ids), 1)) for row in ngrams]
        ).astype(np.int32)
        common = np.stack(
            [np.minimum(row, counts).sum(axis=1) for row in counts]
        )
        totals = counts.sum(axis=1)
        is_counted = (totals[:, None] > 0) & (totals > 0)
        precision = precision + common / np.maximum(totals[:, None], 1)
        recall = recall + common / np.maximum(totals, 1)
        num_orders = num_orders + is_counted
    num_orders = np.maximum(num_orders, 1)
    precision, recall = precision / num_orders, recall / num_orders
    weighted = _BETA**2 * precision + recall
    return (1 + _BETA**2) * precision * recall / np.maximum(weighted, 1e-16)


def rerank_by_command(command: str) -> Reranker:
    """Returns a function like `rerank_by_mbr`, with the scores of a command.

    The command, a str, reads lines "text TAB translation" and writes a line
    with a number for each, higher for better translations, as a script around
    COMET may do. It is started for each list of texts. InputError if it fails,
    or writes anything else.
    """
    return functools.partial(_rerank_by_command, command)


def _rerank_by_command(command, texts, rows):
    lines = [
        f"{_one_column(text)}\t{_one_column(each.text)}\n"
        for text, row in zip(texts, rows)
        for each in row
    ]
    try:
        process = subprocess.run(
            shlex.split(command),
            input="".join(lines).encode(),
            stdout=subprocess.PIPE,
            check=True,
        )
        scores = [*map(float, process.stdout.decode().split())]
        if len(scores) != len(lines) or not all(map(math.isfinite, scores)):
            raise ValueError(
                f"{len(scores)} numbers, some perhaps infinite, for "
                f"{len(lines)} lines"
            )
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise InputError(
            f"--rerank_command={command} failed ({error}); expected a program "
            "that reads lines of text TAB translation and writes a number for "
            "each."
        ) from error
    remaining = iter(scores)
    return [_sort(row, [next(remaining) for _ in row]) for row in rows]


def _one_column(text):
    return " ".join(text.split())


def _sort(row, scores):
    """Returns a list in the order of falling scores; equal ones stay."""
    order = sorted(range(len(row)), key=lambda index: -scores[index])
    return [row[index] for index in order]
