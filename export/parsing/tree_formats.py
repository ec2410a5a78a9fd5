"""Output formats of trees: bracketed lines, indented text and SVG.

A format is a function like those from `export.lines.streams.line_format`.
"""

import os
import pathlib

from nltk.tree import Tree

from export.common import svg
from export.common.command import validate_new_path
from export.common.storage import write_bytes
from export.lines.streams import LineFormat, line_format
from export.parsing.trees import is_preterminal, tree_words

_LINE_LENGTH = 79
# Pixels between texts, between rows, and around the picture.
_GAP, _ROW_HEIGHT, _MARGIN = 12, 40, 12
# Pixels between tag and word, above lines, and of lines until they branch.
_WORD_GAP, _LINE_GAP, _STEM = 4, 5, 6


def tree_format(
    n_best: int,
    scores: bool,
    pretty: bool,
    skip_blank: bool,
    svg_folder: str | os.PathLike | None,
) -> LineFormat:
    """Returns the output format for the flags of export.parse.

    The first tree creates `svg_folder`, in which the format draws trees. Raises
    InputError if it exists or a file cannot be written.
    """
    is_n_best = n_best > 1
    make_format = _indented_format if pretty else line_format
    format_lines = make_format(is_n_best, scores)
    if svg_folder is not None:
        svg_folder = pathlib.Path(svg_folder)
        validate_new_path(svg_folder, "--svg")

    def format_and_draw(index, parses):
        if parses[0].tree is None:
            return [] if skip_blank else format_lines(index, parses)
        drawn_parses = [] if svg_folder is None else parses
        for rank, parse in enumerate(drawn_parses, 1):
            name = f"line-{index + 1:06}"
            if is_n_best:
                name += f"-tree-{rank}"
            tree = draw_tree(parse.tree).encode("utf-8")
            write_bytes(svg_folder / f"{name}.svg", tree)
        return format_lines(index, parses)

    return format_and_draw


def _indented_format(is_n_best, scores):
    """Like `line_format`, with each tree over several lines."""

    def format_indented(index, parses):
        lines = []
        for parse in parses if is_n_best else parses[:1]:
            if is_n_best:
                lines.append(f"{index} ||| {parse.score:.6f}")
            elif scores:
                lines.append(f"{parse.score:.6f}")
            if parse.tree is not None:
                lines += parse.tree.pformat(margin=_LINE_LENGTH).split("\n")
            lines.append("")
        return lines

    return format_indented


def draw_tree(tree: Tree) -> str:
    """Returns an SVG of a normalized tree; tags and words are its last rows.

    In nltk's drawing, whose columns have equal width, long words overlap.
    """
    tags_row = tree.height() - 2
    height = 2 * _MARGIN + _ROW_HEIGHT * (tags_row + 1)
    picture = svg.create_picture(_width(tree) + 2 * _MARGIN, height)
    svg.add_element(picture, "title", {}, " ".join(tree_words(tree)))
    lines = svg.add_element(picture, "g", {"stroke": "#808890", "fill": "none"})
    texts = svg.add_element(picture, "g", {"text-anchor": "middle"})

    def add_text(x, y, text, **attributes):
        position = {"x": f"{x:.1f}", "y": f"{y:.1f}"}
        svg.add_element(texts, "text", position | attributes, text)

    def draw(node, left, row):
        """Draws a subtree; returns the (x, y) above its label."""
        children, x = [], left + _width(node) / 2
        if not is_preterminal(node):
            child_left = left + (_width(node) - sum(map(_width, node))) / 2
            for child in node:
                children.append(draw(child, child_left, row + 1))
                child_left += _width(child)
            x = (children[0][0] + children[-1][0]) / 2
        label_row = row if children else tags_row
        y = _MARGIN + svg.FONT_SIZE + label_row * _ROW_HEIGHT
        add_text(x, y, node.label())
        if not children:
            # Words and tags differ in color.
            word_y = y + svg.FONT_SIZE + _WORD_GAP
            add_text(x, word_y, node[0], fill="#0072b2")
        for child_x, child_y in children:
            start = f"M{x:.1f} {y + _LINE_GAP:.1f}"
            path = f"{start}v{_STEM}H{child_x:.1f}V{child_y:.1f}"
            svg.add_element(lines, "path", {"d": path})
        return x, y - svg.FONT_SIZE - 1

    draw(tree, _MARGIN, 0)
    return svg.picture_to_string(picture)


def _width(node):
    width = svg.text_width(node.label()) + _GAP
    if is_preterminal(node):
        return max(width, svg.text_width(node[0]) + _GAP)
    return max(width, sum(map(_width, node)))
