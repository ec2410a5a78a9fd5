"""Output formats of trees: bracketed lines, indented text and SVG.

A format is a function like those from `export.lines.streams.line_format`.
"""

import pathlib

from export.common import svg
from export.common.command import validate_new_path
from export.common.storage import atomic_write, explain_file_errors
from export.lines.streams import line_format
from export.parsing.trees import is_preterminal, tree_words

_LINE_LENGTH = 79
# Pixels between texts, between rows, and around the picture.
_GAP, _ROW_HEIGHT, _MARGIN = 12, 40, 12


def tree_format(n_best, scores, pretty, skip_blank, svg_folder):
    """Returns the output format for the flags of export.parse.

    `svg_folder` is the path of a new folder, or None: the tree of line 12 is
    `line-000012.svg`, and with `n_best` above 1 its second best tree
    `line-000012-tree-2.svg`. Raises InputError if the folder exists or a file
    cannot be written.
    """
    is_n_best = n_best > 1
    text_format = _indented_format if pretty else line_format
    format_text = text_format(is_n_best, scores)
    if svg_folder is not None:
        svg_folder = pathlib.Path(svg_folder)
        validate_new_path(svg_folder, "--svg")
        with explain_file_errors(svg_folder):
            svg_folder.mkdir(parents=True)

    def format_parses(index, parses):
        if parses[0].tree is None:
            return [] if skip_blank else format_text(index, parses)
        for rank, parse in enumerate(parses if svg_folder else (), 1):
            name = f"line-{index + 1:06}"
            if is_n_best:
                name += f"-tree-{rank}"
            with atomic_write(svg_folder / f"{name}.svg") as temporary:
                temporary.write_text(draw_tree(parse.tree), encoding="utf-8")
        return format_text(index, parses)

    return format_parses


def _indented_format(is_n_best, scores):
    def format_parses(index, parses):
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

    return format_parses


def draw_tree(tree):
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
        children = []
        if is_preterminal(node):
            row, x = tags_row, left + _width(node) / 2
        else:
            left += (_width(node) - sum(map(_width, node))) / 2
            for child in node:
                children.append(draw(child, left, row + 1))
                left += _width(child)
            x = (children[0][0] + children[-1][0]) / 2
        y = _MARGIN + svg.FONT_SIZE + row * _ROW_HEIGHT
        add_text(x, y, node.label())
        if not children:
            # Words and tags differ in color.
            add_text(x, y + svg.FONT_SIZE + 4, node[0], fill="#0072b2")
        for child_x, child_y in children:
            path = f"M{x:.1f} {y + 5:.1f}v6H{child_x:.1f}V{child_y:.1f}"
            svg.add_element(lines, "path", {"d": path})
        return x, y - svg.FONT_SIZE - 1

    draw(tree, _MARGIN, 0)
    return svg.picture_to_string(picture)


def _width(node):
    width = svg.text_width(node.label()) + _GAP
    if is_preterminal(node):
        return max(width, svg.text_width(node[0]) + _GAP)
    return max(width, sum(map(_width, node)))
