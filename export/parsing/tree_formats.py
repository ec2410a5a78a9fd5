"""Output formats of trees: bracketed lines, indented text and SVG.

As for `export.lines.streams.line_format`, a format is a function of the number
of a sentence, from 0, and of its list of Parse, best first, that returns lines.
"""

import pathlib

from export.common import svg
from export.common.atomic_files import atomic_write
from export.common.command import require_new
from export.common.paths import explain_file_errors
from export.lines.streams import line_format
from export.parsing.trees import CLOSE, OPEN, WORD, traverse, tree_words

_LINE_LENGTH = 79

# In pixels.
_GAP = 12
_ROW = 2 * svg.FONT_SIZE + _GAP
_MARGIN = 12
# Distances from the base line of a text to the lines above and below it.
_ABOVE, _BELOW = svg.FONT_SIZE + 1, 5


def tree_format(is_n_best, scores, pretty, skip_blank, pictures):
    """Returns the output format for the flags of export.parse.

    With `is_n_best` it writes all trees of a sentence, with scores. `pretty`
    indents trees as Penn treebanks do; `skip_blank` omits sentences without
    words. `pictures` is the path of a new folder for a picture of each tree, or
    None: the tree of line 12, counted from 1, is `line-000012.svg`; with
    `is_n_best` its second best tree is `line-000012-tree-2.svg`.

    Raises:
        InputError: the folder exists or cannot be created; in a call: a picture
            cannot be written.
    """
    to_lines = line_format(is_n_best, scores)
    if pretty:
        to_lines = _indented_format(is_n_best, scores)
    if pictures is not None:
        pictures = pathlib.Path(pictures)
        require_new(pictures, "--svg")
        with explain_file_errors(pictures):
            pictures.mkdir(parents=True)

    def lines(number, parses):
        if parses[0].tree is None:
            return [] if skip_blank else to_lines(number, parses)
        for position, parse in enumerate(parses if pictures else (), 1):
            name = f"line-{number + 1:06}"
            if is_n_best:
                name += f"-tree-{position}"
            with atomic_write(pictures / f"{name}.svg") as temporary:
                temporary.write_text(draw_tree(parse.tree), encoding="utf-8")
        return to_lines(number, parses)

    return lines


def _indented_format(is_n_best, scores):
    def lines(number, parses):
        written = []
        for parse in parses if is_n_best else parses[:1]:
            if is_n_best:
                written.append(f"{number} ||| {parse.score:.6f}")
            elif scores:
                written.append(f"{parse.score:.6f}")
            if parse.tree is not None:
                written += parse.tree.pformat(margin=_LINE_LENGTH).split("\n")
            written.append("")
        return written

    return lines


def draw_tree(tree):
    """Returns an SVG of a normalised tree.

    The last two rows are tags and words, as text, black on a transparent
    ground. nltk's own drawing has columns of equal width, in which longer words
    overlap.
    """
    widths, rows = _measure(tree)
    last = _base(rows)
    picture = svg.create_picture(widths[id(tree)] + 2 * _MARGIN, last + _ROW)
    svg.add_element(picture, "title", {}, " ".join(tree_words(tree)))
    lines = svg.add_element(picture, "g", {"stroke": "#808890", "fill": "none"})
    texts = svg.add_element(picture, "g", {"text-anchor": "middle"})

    def add_text(x, y, text, **attributes):
        position = {"x": f"{x:.1f}", "y": f"{y:.1f}"}
        svg.add_element(texts, "text", position | attributes, text)

    # For each open bracket: the left edge of its next child, and the middle and
    # upper end of each child so far.
    opened = [(_MARGIN, [])]
    for event, node in traverse(tree):
        if event is CLOSE:
            _, children = opened.pop()
            middle = (children[0][0] + children[-1][0]) / 2
            base = _base(len(opened) - 1)
            add_text(middle, base, node.label())
            path = _fork(middle, base + _BELOW, children)
            svg.add_element(lines, "path", {"d": path})
            opened[-1][1].append((middle, base - _ABOVE))
            continue
        left, siblings = opened[-1]
        opened[-1] = left + widths[id(node)], siblings
        if event is OPEN:
            inside = sum(widths[id(child)] for child in node)
            opened.append((left + (widths[id(node)] - inside) / 2, []))
        else:
            middle = left + widths[id(node)] / 2
            add_text(middle, last, node.label())
            # Words and tags differ in colour.
            add_text(middle, last + svg.FONT_SIZE + 4, node[0], fill="#0072b2")
            siblings.append((middle, last - _ABOVE))
    return svg.picture_to_string(picture)


def _measure(tree):
    """Returns the width of each bracket by its id, and the tree's depth."""
    widths, depth, max_depth = {}, 0, 0
    for event, node in traverse(tree):
        width = svg.text_width(node.label())
        if event is WORD:
            width = max(width, svg.text_width(node[0]))
        elif event is OPEN:
            depth += 1
            max_depth = max(max_depth, depth)
        else:
            depth -= 1
            inside = sum(widths[id(child)] for child in node)
            width = max(width, inside - _GAP)
        widths[id(node)] = width + _GAP
    return widths, max_depth


def _base(row):
    return _MARGIN + svg.FONT_SIZE + row * _ROW


def _fork(middle, top, children):
    """Returns the path from a bracket to a bar, and from it to each child."""
    bar = top + 6
    path = f"M{middle:.1f} {top:.1f}V{bar:.1f}"
    path += f"M{children[0][0]:.1f} {bar:.1f}H{children[-1][0]:.1f}"
    for x, end in children:
        path += f"M{x:.1f} {bar:.1f}V{end:.1f}"
    return path
