"""Trees of the marks of a sentence: its elements and empty tags."""

from export.documents.items import Kind

_MAX_LAYERS = 20


class Node:
    """An element, an empty tag, or the part of an element in a sentence.

    Attributes:
        open: its start tag; "" if that is in an earlier sentence.
        close: its end tag; "" if that is in a later sentence.
        start: offset of its beginning in the source.
        end: offset of its end.
        left: index of its first piece of the translation.
        right: index after its last piece.
        anchor: "left" if it must begin with its parent, "right" if it must end
            with it, else "".
        is_void: whether it is an empty tag.
    """

    __slots__ = (
        *("open", "close", "start", "end", "left", "right", "anchor"),
        *("is_void", "children"),
    )

    def __init__(self, start, open_tag="", anchor=""):
        self.open, self.close, self.anchor = open_tag, "", anchor
        self.is_void = False
        self.start = self.end = start
        self.left = self.right = 0
        self.children = []


def find_crossing(items):
    """Returns the elements that others end, or begin, within.

    Of "<b>x <i>y</b> z</i>" it is <i>: the standard ends it with </b>.
    """
    stack, crossing = {}, set()
    for item in items:
        if item.kind is Kind.OPEN:
            stack[item.element] = True
        elif item.kind is Kind.CLOSE and item.element not in crossing:
            # One that began before all of these, or among them.
            while stack and (last := stack.popitem()[0]) is not item.element:
                crossing.add(last)
    return crossing


def split_layers(items):
    """Returns lists of the marks, in each of which elements do not cross.

    Also the marks that are left after too many lists, of some bad document.
    """
    marks, layers = [item for item in items if item.is_mark], []
    while marks and len(layers) < _MAX_LAYERS:
        crossing = find_crossing(marks)
        if not crossing:
            return [*layers, marks], []
        layers.append([item for item in marks if item.element not in crossing])
        marks = [item for item in marks if item.element in crossing]
    return layers, marks


def build_tree(items, marks, length):
    """Returns the root Node of marks, a part of those of the items."""
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
    """Adds a mark to a tree; `stack` has the root and what is open."""
    if item.kind is not Kind.CLOSE:
        node = Node(offset, item.raw)
        node.is_void = item.kind is not Kind.OPEN
        node.end = offset + len(item.text)
        stack[-1].children.append(node)
        if item.kind is Kind.OPEN:
            stack.append(node)
    else:
        if len(stack) > 1:
            node = stack.pop()
        else:
            # It began in an earlier sentence.
            root = stack[0]
            node = Node(0, anchor="left")
            node.children, root.children = root.children, [node]
        node.end, node.close = offset, item.raw


def walk(root):
    """Yields the Nodes of a tree."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack += node.children
