"""Penn trees, read from lines and normalized as EVALB does.

A normalized tree has the root TOP; each word has its own bracket, labeled with
its part-of-speech tag; every other bracket has a label and at least one child.
Trees are traversed without recursion, because their depth depends on the input.
"""

import functools
import re
import string
from collections.abc import Iterator

from nltk.tree import Tree

from export.common.errors import InputError
from export.common.storage import AnyPath
from export.lines.files import read_lines

ROOT = "TOP"
ROOT_LABELS = frozenset(["", "ROOT", ROOT])
TRACE = "-NONE-"

# Events of `traverse`.
OPEN, WORD, CLOSE = "open", "word", "close"

# Matches Unicode's white space beyond ASCII (up to U+3000), which does not
# separate words in treebanks.
_SPACES = {letter for letter in map(chr, range(0x3001)) if letter.isspace()}
UNICODE_SPACE = f"[{''.join(sorted(_SPACES - {*string.whitespace}))}]"
_UNICODE_SPACE = re.compile(UNICODE_SPACE)
# nltk reads a bracket after a backslash as part of a word.
_BACKSLASH = re.compile(r"\\(?=[()])")


def read_trees(path: "str | AnyPath") -> Iterator[Tree]:
    """Yields the normalized trees of a file (or .gz) with one tree per line.

    Raises InputError if it cannot be read, or a line is not a tree with words.
    """
    for number, line in enumerate(read_lines(path), 1):
        try:
            yield read_tree(line)
        except ValueError as error:
            raise InputError(
                f"Line {number} of {path} is not a tree: {error}; expected "
                "one tree per line, such as (S (NP (NN word)))."
            ) from None


def read_tree(text: str) -> Tree:
    """Returns the normalized tree of a bracketed text.

    Raises ValueError if brackets do not match or are nested more than 500 deep
    (nltk's limit), there is text outside of them, or `normalize` raises it.
    """
    text = _BACKSLASH.sub(r"\\ ", remove_unicode_spaces(text))
    try:
        tree = Tree.fromstring(text)
    except ValueError as error:
        # The last line of nltk's message has the text around the error.
        lines = str(error).removeprefix("Tree.read(): ").split("\n")
        reason = " ".join(map(str.strip, lines[:2])).rstrip(".")
        raise ValueError(reason) from None
    return normalize(tree)


def remove_unicode_spaces(text: str) -> str:
    """Removes Unicode's white space beyond ASCII, such as thin spaces."""
    return _UNICODE_SPACE.sub("", text)


def normalize(tree: Tree) -> Tree:
    """Returns a copy of a tree as EVALB compares it, with the root TOP.

    Removes function tags and co-indices (NP-SBJ-1 and NP=2 become NP), traces,
    and brackets without words. A root that is unlabeled, ROOT or TOP becomes
    one TOP; other trees get a TOP. Raises ValueError if a bracket has no label
    or no child, a word has no bracket of its own, or no word remains.
    """
    # The children of each open bracket.
    stack: list[list[Tree]] = [[]]
    for event, node in traverse(tree):
        if event is OPEN:
            _validate_bracket(node, is_root=node is tree)
            stack.append([])
        elif event is WORD:
            if node.label() != TRACE:
                stack[-1].append(Tree(node.label(), list(node)))
        else:
            label, children = _strip_function_tags(node.label()), stack.pop()
            if children:
                stack[-1].append(Tree(label, children))
    if not stack[0]:
        raise ValueError("it has no words")
    return add_root(stack[0][0])


def add_root(tree: Tree) -> Tree:
    """Returns a copy of a tree with exactly one TOP as its root."""
    while _is_root(tree) and len(tree) == 1 and _is_root(tree[0]):
        tree = tree[0]
    return Tree(ROOT, list(tree) if _is_root(tree) else [tree])


def traverse(tree: Tree) -> Iterator[tuple[str, Tree]]:
    """Yields (event, node) for each bracket of a tree, left to right.

    The event is WORD for a bracket around a single word; for other brackets it
    is OPEN before their children and CLOSE after them.
    """
    stack = [(OPEN, tree)]
    while stack:
        event, node = stack.pop()
        if event is OPEN and is_preterminal(node):
            event = WORD
        elif event is OPEN:
            stack.append((CLOSE, node))
            children = [c for c in reversed(node) if not isinstance(c, str)]
            stack.extend((OPEN, child) for child in children)
        yield event, node


def is_preterminal(node: Tree) -> bool:
    """Returns whether a bracket contains exactly one word."""
    return len(node) == 1 and isinstance(node[0], str)


def tree_words(tree: Tree) -> list[str]:
    """Returns the words of a tree."""
    return [node[0] for event, node in traverse(tree) if event is WORD]


def format_tree(tree: Tree) -> str:
    """Returns a tree as one bracketed line; ValueError for invalid words."""
    text = ""
    for event, node in traverse(tree):
        if event is OPEN:
            text += f" ({node.label()}"
        elif event is WORD:
            text += f" ({node.label()} {escape_brackets(node[0])})"
        else:
            text += ")"
    return text.lstrip()


def escape_brackets(word: str) -> str:
    """Replaces brackets in a word by -LRB- and -RRB-, as Penn trees do.

    ValueError if the word is empty or contains white space.
    """
    if word.split() != [word]:
        raise ValueError(f"{word!r} is not a word: it is empty or has a space.")
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


def _is_root(node):
    return node.label() in ROOT_LABELS and not is_preterminal(node)


@functools.cache
def _strip_function_tags(label):
    # A label that begins with - or =, such as -X-1, is not shortened.
    return re.split("[-=]", label, maxsplit=1)[0] or label


def _validate_bracket(node, is_root):
    if not len(node):
        raise ValueError(f"the bracket ({node.label()} is empty")
    for child in node:
        if isinstance(child, str):
            raise ValueError(
                f"{child!r} in ({node.label()} needs its own bracket and tag"
            )
    if not is_root and not node.label():
        raise ValueError("a bracket inside it has no label")
