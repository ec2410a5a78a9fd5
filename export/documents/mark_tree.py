"""Trees of the marks of a sentence: its elements and empty tags."""

from collections.abc import Iterable, Iterator

from export.documents.items import Item, Kind

_MAX_LAYERS = 20


class Node:
    """An element, an empty tag, or the part of an element in a sentence.

    Attributes:
        open: its start tag; "" if that is in an earlier sentence.
        close: its end tag; "" if that is in a later sentence.
        start, end: offsets of its beginning and end in the source.
        anchor: "left" if it must begin with its parent, "right" if it must end
            with it, else "".
        is_void: whether it is an empty tag.
        children: the Nodes within it.
        left, right: its range of the chunks of the translation, (0, 0) until
            `placement` has placed the Node.
    """

    __slots__ = (
        *("open", "close", "start", "end", "left", "right", "anchor"),
        *("is_void", "children"),
    )

    def __init__(self, start: int, open_tag: str = "", anchor: str = ""):
        self.open, self.close, self.anchor = open_tag, "", anchor
        self.is_void = False
        self.start = self.end = start
        self.left = self.right = 0
        self.children: list[Node] = []


def find_crossing(items: Iterable[Item]) -> set[object]:
    """Returns the elements that cross another one around them.

    Elements cross if one begins within the other and ends after it, as <b> and
    <i> of "<b>x <i>y</b> z</i>", for which {<i>} is returned.
    """
    stack: list[object] = []
    crossing: set[object] = set()
    for item in items:
        if item.kind is Kind.OPEN:
            stack.append(item.element)
        elif item.kind is Kind.CLOSE and item.element not in crossing:
            # What began within it, or all if it began in another sentence.
            while stack and (last := stack.pop()) is not item.element:
                crossing.add(last)
    return crossing


def split_layers(
    items: Iterable[Item],
) -> tuple[list[list[Item]], list[Item]]:
    """Returns lists of the marks without crossing elements, and other marks.

    The second list has the marks that remain after 20 lists, as of a document
    with 21 elements that cross each other; it is empty for most.
    """
    marks = [item for item in items if item.is_mark]
    layers: list[list[Item]] = []
    while marks and len(layers) < _MAX_LAYERS:
        crossing = find_crossing(marks)
        if not crossing:
            return [*layers, marks], []
        layers.append([item for item in marks if item.element not in crossing])
        marks = [item for item in marks if item.element in crossing]
    return layers, marks


def build_tree(
    items: Iterable[Item], marks: Iterable[Item], length: int
) -> Node:
    """Returns the root of marks, a list of `split_layers`.

    `items` are those of the sentence, whose text has `length` characters.
    """
    root = Node(0)
    root.end = length
    stack, offset = [root], 0
    waiting = iter([*marks, None])
    mark = next(waiting)
    for item in items:
        if item is mark:
            mark = next(waiting)
            _add_mark(item, stack, offset)
        offset += len(item.text)
    for node in stack[1:]:
        node.end, node.anchor = length, "right"
    return root


def _add_mark(item, stack, offset):
    """Adds a mark to a tree; `stack` has the root and the open elements.

    No elements cross, so an end tag is that of the last one.
    """
    if item.kind is not Kind.CLOSE:
        node = Node(offset, item.raw)
        node.is_void = item.kind is not Kind.OPEN
        node.end = offset + len(item.text)
        stack[-1].children.append(node)
        if item.kind is Kind.OPEN:
            stack.append(node)
        return
    if len(stack) > 1:
        node = stack.pop()
    else:
        # It began in an earlier sentence.
        root = stack[0]
        node = Node(0, anchor="left")
        node.children, root.children = root.children, [node]
    node.end, node.close = offset, item.raw


def walk(root: Node) -> Iterator[Node]:
    """Yields the Nodes of a tree."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack += node.children
