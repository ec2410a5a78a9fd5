"""Draws trees as SVG pictures.

nltk's own drawing has columns of one width, in which longer words lie over
each other.
"""

import pathlib

from export.common import svg
from export.common.atomic_files import atomic_write
from export.common.errors import InputError
from export.parsing.trees import CLOSE, OPEN, WORD, visits, words

_GAP = 12
_ROW = 2 * svg.LETTER + _GAP
_MARGIN = 12
# From a text's base line to the line above it, and to the one below it.
_ABOVE, _BELOW = svg.LETTER + 1, 5


def tree_svg(tree):
    """Draws a tree: labels in rows, tags and words in the last two.

    Args:
        tree: nltk.Tree, normalised.

    Returns:
        The SVG as str, with text as text, black on a transparent ground.
    """
    widths = _widths(tree)
    depths = _depth(tree)
    last = _base(depths)
    picture = svg.picture(widths[id(tree)] + 2 * _MARGIN, last + _ROW)
    svg.add(picture, "title", {}, " ".join(words(tree)))
    lines = svg.add(picture, "g", {"stroke": "#808890", "fill": "none"})
    texts = svg.add(picture, "g", {"text-anchor": "middle"})
    # Of each open bracket: where its next child begins, and where the middles
    # and upper ends of its children are.
    opened = [(_MARGIN, [])]
    for event, node in visits(tree):
        if event is CLOSE:
            _, children = opened.pop()
            middle = (children[0][0] + children[-1][0]) / 2
            base = _base(len(opened) - 1)
            _add_fork(lines, middle, base + _BELOW, children)
            _add_text(texts, middle, base, node.label())
            opened[-1][1].append((middle, base - _ABOVE))
            continue
        left, children = opened[-1]
        opened[-1] = left + widths[id(node)], children
        if event is OPEN:
            inside = sum(widths[id(child)] for child in node)
            opened.append((left + (widths[id(node)] - inside) / 2, []))
        else:
            middle = left + widths[id(node)] / 2
            _add_text(texts, middle, last, node.label())
            # Colour tells words from tags.
            look = {"fill": "#0072b2"}
            _add_text(texts, middle, last + svg.LETTER + 4, node[0], look)
            children.append((middle, last - _ABOVE))
    return svg.written(picture)


class Pictures:
    """A folder with a picture of each tree.

    `line-000012.svg` is of line 12, counted from 1; of several trees of one
    line `line-000012-tree-2.svg` is the second best.

    Args:
        folder: path; it may not hold anything.
        several: whether there may be several trees of a line.

    Raises:
        InputError: the folder holds something, is none, or cannot be made.
    """

    def __init__(self, folder, several):
        self._folder = pathlib.Path(folder)
        self._several = several
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            is_empty = next(self._folder.iterdir(), None) is None
        except OSError as error:
            raise InputError(
                f"{folder} cannot be a folder of pictures: {error.strerror}."
            ) from error
        if not is_empty:
            raise InputError(
                f"{folder} holds files already, and pictures go into a folder "
                "of their own; name a new one, or empty this one."
            )

    def draw(self, number, found):
        """Draws the trees of one line; a blank line has none.

        Args:
            number: of the line, from 0.
            found: list of Parse, best first.

        Raises:
            InputError: a file cannot be written.
        """
        for place, parse in enumerate(found, 1):
            if parse.tree is None:
                continue
            name = f"line-{number + 1:06}"
            if self._several:
                name += f"-tree-{place}"
            with atomic_write(self._folder / f"{name}.svg") as temporary:
                temporary.write_text(tree_svg(parse.tree), encoding="utf-8")


def _widths(tree):
    """Returns how wide each bracket is, by its id: as all that it holds."""
    widths = {}
    for event, node in visits(tree):
        own = svg.text_width(node.label())
        if event is WORD:
            own = max(own, svg.text_width(node[0]))
        elif event is CLOSE:
            own = max(own, sum(widths[id(child)] for child in node) - _GAP)
        widths[id(node)] = own + _GAP
    return widths


def _depth(tree):
    """Returns how many brackets are open at once."""
    depth = deepest = 0
    for event, _ in visits(tree):
        depth += {OPEN: 1, WORD: 0, CLOSE: -1}[event]
        deepest = max(deepest, depth)
    return deepest


def _base(row):
    return _MARGIN + svg.LETTER + row * _ROW


def _add_fork(lines, middle, top, children):
    """From a bracket down to a bar, and from that to each child."""
    bar = top + 6
    path = f"M{middle:.1f} {top:.1f}V{bar:.1f}"
    if len(children) > 1:
        path += f"M{children[0][0]:.1f} {bar:.1f}H{children[-1][0]:.1f}"
    for x, end in children:
        path += f"M{x:.1f} {bar:.1f}V{end:.1f}"
    svg.add(lines, "path", {"d": path})


def _add_text(texts, x, y, text, look=None):
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}"}
    svg.add(texts, "text", place | (look or {}), text)
