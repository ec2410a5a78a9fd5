"""Examples of the pairs that cleaning removes, and a page of them."""

import hashlib
import html
import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainers.data.manifest import CleaningCounts

_NUM_EXAMPLES = 10
_TITLES = {
    "duplicate": "repeated",
    "language": "in another language",
    "ratio": "of unequal lengths",
    "score": "of a low score",
}
_STYLE = (
    "body{font:15px/1.5 sans-serif;margin:2em;max-width:70em}"
    "table{border-collapse:collapse;width:100%}"
    "td{border-top:1px solid #ccc;padding:.3em;vertical-align:top;width:50%}"
)


def sample_pairs(
    pairs: Iterable[tuple[str, str]],
) -> tuple[tuple[str, ...], ...]:
    """Returns up to ten random pairs, tuples of digest, source and target.

    Those with the lowest digests, so that samples of parts of the pairs make
    one of all, in any order: see `merge_samples`.
    """
    rows = ((_digest("\n".join(pair)), *pair) for pair in pairs)
    return merge_samples(rows, ())


def _digest(text):
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def merge_samples(
    one: Iterable[tuple[str, ...]], other: Iterable[tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    """Returns the sample of the pairs of two."""
    rows = sorted([*one, *other])
    return tuple(row for row, _ in itertools.groupby(rows))[:_NUM_EXAMPLES]


def removed_pairs_page(
    name: str, num_pairs: int, cleaning: "CleaningCounts"
) -> str:
    """Returns an HTML page with the CleaningCounts of `num_pairs` pairs."""
    parts = [
        "<!DOCTYPE html><meta charset=utf-8>",
        f"<title>Pairs removed from {html.escape(name)}</title>",
        f"<style>{_STYLE}</style>",
        f"<h1>Pairs removed from {html.escape(name)}</h1>",
        f"<p>{cleaning.total:,} of {num_pairs:,} training pairs, with up to "
        f"{_NUM_EXAMPLES} random examples of each rule.",
    ]
    for rule, count in sorted(
        cleaning.by_rule().items(), key=lambda item: -item[1]
    ):
        title = html.escape(_TITLES.get(rule, rule))
        share = count / max(num_pairs, 1)
        parts.append(f"<h2>{title}: {count:,} ({share:.2%})</h2><table>")
        for _, *sides in cleaning.examples.get(rule, ()):
            cells = "".join(
                f"<td dir=auto>{html.escape(text)}" for text in sides
            )
            parts.append(f"<tr>{cells}")
        parts.append("</table>")
    return "\n".join(parts) + "\n"
