"""Penn trees: a bracketed one a line, normalised as EVALB does before scoring.

A normalised tree has the root TOP; each word stands alone in a bracket that
is labelled with its part-of-speech tag; every other bracket has a label and
at least one bracket in it. What walks over trees here does so without
recursion, for depth is the input's.
"""

import functools
import re
import string

from nltk.tree import Tree

from export.common.errors import InputError
from export.lines.files import read_lines

ROOT = "TOP"
TRACE = "-NONE-"

# What a visited bracket is: one that begins, a word's with its tag, or the
# end of one that began.
OPEN, WORD, CLOSE = "open", "word", "close"

# Labels of roots.
ROOTS = frozenset(["", "ROOT", ROOT])
# Of Unicode's white space only ASCII's stands between the parts of a tree: the
# others, none of which is beyond the last of these, as a regular expression.
ODD_SPACE = "[{}]".format(
    "".join(
        character
        for character in map(chr, range(0x3001))
        if character.isspace() and character not in string.whitespace
    )
)
_ODD_SPACE = re.compile(ODD_SPACE)
# nltk would take a bracket after a backslash as part of a word.
_BACKSLASH = re.compile(r"\\(?=[()])")


def read_trees(path):
    """Yields the normalised trees of a file, one a line.

    Args:
        path: file of bracketed trees, plain or .gz.

    Yields:
        nltk.Tree, as `normalised` returns it.

    Raises:
        InputError: as for `export.lines.files.read_lines`; or a line is not
            one whole tree with words.
    """
    for number, line in enumerate(read_lines(path), 1):
        try:
            yield read_tree(line)
        except ValueError as error:
            raise InputError(
                f"Line {number} of {path} is no tree: {error}; a whole one a "
                "line was expected, such as (S (NP (NN word)))."
            ) from None


def read_tree(text):
    r"""Returns the normalised tree of a bracketed text.

    Args:
        text: str, such as "( (S (NP-SBJ (DT The) (NN cell)) ...))".

    Returns:
        nltk.Tree.

    Raises:
        ValueError: its brackets do not match, it has text outside of them,
            is nested deeper than nltk reads (500 brackets), or cannot be
            normalised. The message is a part of a sentence.
    """
    text = _BACKSLASH.sub(r"\\ ", without_odd_spaces(text))
    try:
        tree = Tree.fromstring(text)
    except ValueError as error:
        raise ValueError(_nltk_reason(error)) from None
    return normalised(tree)


def without_odd_spaces(text):
    """Returns text without Unicode's white space beyond ASCII's.

    Thin and no-break spaces are no boundary of words in treebanks but a
    matter of typesetting; whoever splits text at white space would split
    there.
    """
    return _ODD_SPACE.sub("", text)


def normalised(tree):
    """Returns a tree as EVALB compares it, with the root TOP.

    Function tags and co-indices go (NP-SBJ-1, NP=2: NP), as do traces and
    brackets with nothing else in them. Tags of words stay as they are. A root
    without a label, ROOT and TOP become TOP, once; other trees get one.

    Args:
        tree: nltk.Tree. It is not changed.

    Returns:
        nltk.Tree.

    Raises:
        ValueError: a bracket has no label or is empty, a word has no bracket
            of its own, or no word is left. The message is a part of a
            sentence.
    """
    opened = [[]]
    for event, node in visits(tree):
        if event is OPEN:
            _check_bracket(node, is_root=node is tree)
            opened.append([])
        elif event is WORD:
            if node.label() != TRACE:
                opened[-1].append(Tree(node.label(), list(node)))
        else:
            children = opened.pop()
            if children:
                opened[-1].append(Tree(_plain(node.label()), children))
    if not opened[0]:
        raise ValueError("it has no words")
    return rooted(opened[0][0])


def rooted(tree):
    """Returns a tree with one TOP as its root, whatever root it has.

    Args:
        tree: nltk.Tree. It is not changed.
    """
    while _is_root(tree) and len(tree) == 1 and _is_root(tree[0]):
        tree = tree[0]
    return Tree(ROOT, list(tree) if _is_root(tree) else [tree])


def visits(tree):
    """Yields the brackets of a tree from left to right.

    Args:
        tree: nltk.Tree.

    Yields:
        (event, nltk.Tree): OPEN and later CLOSE for a bracket around others,
        WORD for one around a single word.
    """
    waiting = [(OPEN, tree)]
    while waiting:
        event, node = waiting.pop()
        if event is OPEN:
            if is_tagged_word(node):
                event = WORD
            else:
                waiting.append((CLOSE, node))
                waiting.extend(
                    (OPEN, child)
                    for child in reversed(node)
                    if not isinstance(child, str)
                )
        yield event, node


def is_tagged_word(node):
    """Tells whether a bracket holds one word and nothing else."""
    return len(node) == 1 and isinstance(node[0], str)


def words(tree):
    """Returns the words of a tree as a list of str."""
    return [node[0] for event, node in visits(tree) if event is WORD]


def tags(tree):
    """Returns the part-of-speech tags of a tree's words as a list of str."""
    return [node.label() for event, node in visits(tree) if event is WORD]


def one_line(tree):
    """Returns a tree in brackets, which `read_tree` reads back.

    Args:
        tree: nltk.Tree, normalised.

    Returns:
        str. Brackets in words are written as `penn_word` does.

    Raises:
        ValueError: a word is empty or holds white space.
    """
    parts = []
    for event, node in visits(tree):
        if event is OPEN:
            parts.append(f" ({node.label()}")
        elif event is WORD:
            parts.append(f" ({node.label()} {penn_word(node[0])})")
        else:
            parts.append(")")
    return "".join(parts).lstrip()


def penn_word(word):
    """Returns a word as Penn trees write it: with -LRB- and -RRB-.

    Raises:
        ValueError: it is empty or holds white space.
    """
    if word.split() != [word]:
        raise ValueError(f"{word!r} is no word: it is empty or holds a space.")
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


def _is_root(node):
    return node.label() in ROOTS and not is_tagged_word(node)


@functools.cache
def _plain(label):
    """NP of NP-SBJ-1 and NP=2; what begins with one of the signs is whole."""
    return re.split("[-=]", label, maxsplit=1)[0] or label


def _check_bracket(node, is_root):
    name = f"({node.label()}"
    if not len(node):
        raise ValueError(f"the bracket {name} is empty")
    for child in node:
        if isinstance(child, str):
            raise ValueError(
                f"{child!r} in {name} needs a bracket of its own with its tag"
            )
    if not is_root and not node.label():
        raise ValueError("a bracket inside it has no label")


def _nltk_reason(error):
    """The part of nltk's message that says what is wrong, on one line."""
    found = re.match(
        r"Tree\.read\(\): (expected .*?)\.?\n\s*(at index \d+)", str(error)
    )
    return " ".join(found.groups()) if found else str(error).partition(";")[0]
