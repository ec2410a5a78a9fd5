"""Converts trees to sequences of symbols, and symbols to ids.

A parser reads words and generates labeled brackets and a part-of-speech tag
for each word (Vinyals et al. 2015, "Grammar as a Foreign Language", section 2).
`(TOP (S (NP (DT The) (NN cell)) (VP (VBZ divides))))` becomes `(S (NP DT NN )NP
(VP VBZ )VP )S`. The root TOP is written only if it has several children.
"""

import dataclasses
import functools
import itertools
import json
import re
import typing
from collections.abc import Iterable, Sequence

from nltk.tree import Tree

from export.parsing.trees import OPEN, ROOT, WORD, add_root, traverse

# After padding, unknown, begin and end of keras_transformer.config, which
# cannot be imported here without Keras.
FIRST_SYMBOL_ID = 4

_NAME = re.compile(r"[^\s()]+")


def linearize(tree: Tree) -> list[str]:
    """Returns the symbols of a normalized tree."""
    if tree.label() != ROOT:
        raise ValueError(f"A normalized tree has the root {ROOT}.")
    symbols = []
    for event, node in traverse(tree):
        if event is OPEN:
            symbols.append(f"({node.label()}")
        elif event is WORD:
            symbols.append(node.label())
        else:
            symbols.append(f"){node.label()}")
    return symbols[1:-1] if len(tree) == 1 else symbols


def delinearize(symbols: Iterable[str], words: Sequence[str]) -> Tree:
    """Returns the normalized tree of symbols and words.

    ValueError if the symbols are not one tree over exactly these words.
    """
    error = ValueError("The symbols are not one tree over the words.")
    remaining_words = list(reversed(words))
    # Labels of open brackets with their children; the first holds the tree.
    stack: list[tuple[str | None, list]] = [(None, [])]
    for symbol in symbols:
        if symbol.startswith("("):
            stack.append((symbol[1:], []))
            continue
        if symbol.startswith(")"):
            label, children = stack.pop()
            if label != symbol[1:] or not children:
                raise error
        else:
            if not remaining_words:
                raise error
            label, children = symbol, [remaining_words.pop()]
        stack[-1][1].append(Tree(label, children))
    trees = stack[0][1]
    if len(stack) > 1 or len(trees) != 1 or remaining_words:
        raise error
    return add_root(trees[0])


def measure_nesting(symbols: Iterable[str]) -> tuple[int, int]:
    """Returns the maximum depth, and number of opening brackets in a row."""
    depth = max_depth = num_open = max_open = 0
    for symbol in symbols:
        is_open = symbol.startswith("(")
        depth += is_open - symbol.startswith(")")
        num_open = num_open + 1 if is_open else 0
        max_depth, max_open = max(max_depth, depth), max(max_open, num_open)
    return max_depth, max_open


@dataclasses.dataclass(frozen=True)
class SymbolVocabulary:
    """The target vocabulary of a parser.

    Ids start at `FIRST_SYMBOL_ID`, with the opening brackets in the order of
    `labels`, then the closing brackets, then the part-of-speech `tags`; both
    are sorted. For `max_depth` and `max_open` see
    `measure_nesting`.
    """

    labels: tuple[str, ...]
    tags: tuple[str, ...]
    max_depth: int
    max_open: int

    def __post_init__(self):
        for names in (self.labels, self.tags):
            is_name = [isinstance(n, str) and _NAME.fullmatch(n) for n in names]
            if not all(is_name) or list(names) != sorted(set(names)):
                raise ValueError(f"Expected sorted names, got {names}.")
        for value in (self.max_depth, self.max_open):
            if type(value) is not int or value < 0:
                raise ValueError(f"Expected an integer >= 0, got {value!r}.")
        if not self.tags:
            raise ValueError("Expected at least one tag, got none.")

    @classmethod
    def from_trees(cls, trees: Iterable[Tree]) -> typing.Self:
        """Builds the vocabulary of normalized trees."""
        return cls.from_linearized_trees(map(linearize, trees))

    @classmethod
    def from_linearized_trees(
        cls, trees: Iterable[Sequence[str]]
    ) -> typing.Self:
        """Builds the vocabulary of lists of symbols; ValueError if none."""
        unique: set[str] = set()
        max_depth = max_open = 0
        for symbols in trees:
            unique.update(symbols)
            depth, num_open = measure_nesting(symbols)
            max_depth, max_open = max(max_depth, depth), max(max_open, num_open)
        labels = {symbol[1:] for symbol in unique if symbol.startswith("(")}
        tags = {symbol for symbol in unique if symbol[0] not in "()"}
        return cls(
            tuple(sorted(labels)), tuple(sorted(tags)), max_depth, max_open
        )

    @classmethod
    def from_json(cls, text: str) -> typing.Self:
        """Reads the output of `to_json`; ValueError for any other text."""
        fields = json.loads(text)
        expected = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(fields, dict) or set(fields) != expected:
            raise ValueError(f"Expected a JSON object of {sorted(expected)}.")
        for name in ("labels", "tags"):
            if not isinstance(fields[name], list):
                raise ValueError(f"Expected a list of {name}.")
            fields[name] = tuple(fields[name])
        return cls(**fields)

    def to_json(self) -> str:
        """Returns the vocabulary as an indented JSON object."""
        fields = dataclasses.asdict(self)
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"

    @functools.cached_property
    def symbols(self) -> tuple[str, ...]:
        """All symbols; the first has the id FIRST_SYMBOL_ID."""
        opening = [f"({label}" for label in self.labels]
        closing = [f"){label}" for label in self.labels]
        return (*opening, *closing, *self.tags)

    def describe_difference(self, other: typing.Self) -> str:
        """Names a symbol of only one vocabulary, such as "the label 'NP'"."""
        for kind, names, others in (
            ("label", self.labels, other.labels),
            ("tag", self.tags, other.tags),
        ):
            if names != others:
                return f"the {kind} {min(set(names) ^ set(others))!r}"
        return ""

    @property
    def vocabulary_size(self) -> int:
        """Number of ids, including those before FIRST_SYMBOL_ID."""
        return FIRST_SYMBOL_ID + len(self.symbols)

    @property
    def first_tag_id(self) -> int:
        """The lowest id of a part-of-speech tag."""
        return FIRST_SYMBOL_ID + 2 * len(self.labels)

    @functools.cached_property
    def _ids(self):
        return dict(zip(self.symbols, itertools.count(FIRST_SYMBOL_ID)))

    def encode(self, symbols: Sequence[str]) -> list[int]:
        """Returns the ids of symbols; ValueError if a symbol is unknown."""
        for symbol in symbols:
            if symbol not in self._ids:
                kind = "label" if symbol[:1] in ("(", ")") else "tag"
                raise ValueError(
                    f"The {kind} {symbol.lstrip('()')!r} is not in the trees "
                    "that the vocabulary was built from."
                )
        return [self._ids[symbol] for symbol in symbols]

    def decode(self, ids: Sequence[int]) -> list[str]:
        """Returns the symbols of ids; ValueError if an id has no symbol."""
        for id_ in ids:
            if not FIRST_SYMBOL_ID <= id_ < self.vocabulary_size:
                raise ValueError(f"There is no symbol with the id {id_}.")
        return [self.symbols[id_ - FIRST_SYMBOL_ID] for id_ in ids]
