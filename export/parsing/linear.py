"""Trees as lines of symbols, and the vocabulary of those symbols.

The words of a sentence go into the parser; what comes out are brackets with
labels and a part-of-speech tag for each word (Vinyals et al. 2015, "Grammar as
a Foreign Language", section 2). `(TOP (S (NP (DT The) (NN cell)) (VP (VBZ
divides))))` is `(S (NP DT NN )NP (VP VBZ )VP )S`. The root TOP is said only
where it stands above several brackets.
"""

import dataclasses
import functools
import json

from nltk.tree import Tree

from export.parsing.trees import OPEN, ROOT, WORD, rooted, visits

# Before the symbols come padding, unknown, begin and end: the ids that
# keras_transformer.config names, which this room cannot import without Keras.
FIRST_ID = 4


def linearise(tree):
    """Returns the symbols that say a tree, but not its words.

    Args:
        tree: nltk.Tree, normalised.

    Returns:
        list of str.
    """
    if tree.label() != ROOT:
        raise ValueError(f"A normalised tree has the root {ROOT}.")
    symbols = []
    for event, node in visits(tree):
        if event is OPEN:
            symbols.append(f"({node.label()}")
        elif event is WORD:
            symbols.append(node.label())
        else:
            symbols.append(f"){node.label()}")
    return symbols[1:-1] if len(tree) == 1 else symbols


def delinearise(symbols, words):
    """Returns the tree that symbols say over words.

    Args:
        symbols: list of str, as `linearise` returns them.
        words: list of str.

    Returns:
        nltk.Tree, normalised.

    Raises:
        ValueError: the symbols are not one tree over exactly these words.
    """
    remaining = iter(words)
    opened = [(None, [])]
    for symbol in symbols:
        if symbol.startswith("("):
            opened.append((symbol[1:], []))
        elif symbol.startswith(")"):
            label, children = opened.pop()
            if label != symbol[1:]:
                raise ValueError(f"{symbol} closes no bracket of its label.")
            if not children:
                raise ValueError(f"({label} is closed with nothing in it.")
            opened[-1][1].append(Tree(label, children))
        else:
            word = next(remaining, None)
            if word is None:
                raise ValueError("There are more tags than words.")
            opened[-1][1].append(Tree(symbol, [word]))
    if len(opened) > 1:
        raise ValueError(f"({opened[-1][0]} is not closed.")
    if next(remaining, None) is not None:
        raise ValueError("There are fewer tags than words.")
    trees = opened[0][1]
    if len(trees) != 1:
        raise ValueError(f"There are {len(trees)} trees; one was expected.")
    return rooted(trees[0])


@dataclasses.dataclass(frozen=True)
class Bounds:
    """How far brackets were nested, in lines of symbols.

    Attributes:
        max_depth: most brackets that were open at once.
        max_chain: most brackets of which each but the innermost holds one
            other bracket and nothing else: 2 for (S (VP VB NN )VP )S, and 1
            where no bracket holds just another.
        max_open: most opening brackets in a row.
    """

    max_depth: int = 0
    max_chain: int = 0
    max_open: int = 0

    @classmethod
    def of(cls, symbols):
        """Measures one line of symbols, a list of str."""
        depth = chain = run = longest_run = 0
        # Of each open bracket: how many things it holds, and the chain that
        # the last of them begins.
        opened = [(0, 0)]
        for symbol in symbols:
            if symbol.startswith("("):
                opened.append((0, 0))
                depth = max(depth, len(opened) - 1)
                run += 1
                longest_run = max(longest_run, run)
                continue
            run = length = 0
            if symbol.startswith(")"):
                held, inner = opened.pop()
                length = 1 + (inner if held == 1 else 0)
                chain = max(chain, length)
            opened[-1] = (opened[-1][0] + 1, length)
        return cls(depth, chain, longest_run)

    def joined(self, other):
        """Returns the Bounds that both keep to."""
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other))
        return Bounds(*map(max, pairs))


@dataclasses.dataclass(frozen=True)
class Symbols:
    """The vocabulary of lines of symbols.

    After `FIRST_ID` ids of every vocabulary come the opening brackets in the
    order of `labels`, the closing ones, and the tags.

    Attributes:
        labels: sorted tuple of str, of brackets.
        tags: sorted tuple of str, of words.
        bounds: Bounds of the trees that it was made from.
    """

    labels: tuple
    tags: tuple
    bounds: Bounds

    def __post_init__(self):
        for name in ("labels", "tags"):
            _check_names(name, getattr(self, name))
        for name, value in dataclasses.asdict(self.bounds).items():
            if type(value) is not int or value < 0:
                raise ValueError(f"{name} must be a whole number: {value!r}.")
        if not self.tags:
            raise ValueError("There must be a tag at least.")

    @classmethod
    def of(cls, trees):
        """Returns the symbols that trees need.

        Args:
            trees: iterable of normalised nltk.Tree.

        Raises:
            ValueError: there are no trees.
        """
        return cls.of_lines(map(linearise, trees))

    @classmethod
    def of_lines(cls, lines):
        """Returns the symbols of linearised trees.

        Args:
            lines: iterable of lists of str, as `linearise` returns them.

        Raises:
            ValueError: there are no lines.
        """
        seen, bounds = set(), Bounds()
        for symbols in lines:
            seen.update(symbols)
            bounds = bounds.joined(Bounds.of(symbols))
        labels = {symbol[1:] for symbol in seen if symbol.startswith("(")}
        tags = {symbol for symbol in seen if symbol[0] not in "()"}
        return cls(tuple(sorted(labels)), tuple(sorted(tags)), bounds)

    @classmethod
    def from_json(cls, text):
        """Returns the symbols that `to_json` wrote.

        Raises:
            ValueError: the text is not that, or was changed since into
                something that no trees have.
        """
        fields = json.loads(text)
        if not isinstance(fields, dict) or set(fields) != _fields(cls):
            raise ValueError(
                "Symbols must be a JSON object of labels, tags and bounds."
            )
        bounds = fields["bounds"]
        if not isinstance(bounds, dict) or set(bounds) != _fields(Bounds):
            raise ValueError(
                "The bounds of symbols must be a JSON object of "
                f"{', '.join(sorted(_fields(Bounds)))}."
            )
        for name in ("labels", "tags"):
            if not isinstance(fields[name], list):
                raise ValueError(f"The {name} must be a list.")
        return cls(
            tuple(fields["labels"]), tuple(fields["tags"]), Bounds(**bounds)
        )

    def to_json(self):
        """Returns the symbols as an indented JSON object."""
        fields = dataclasses.asdict(self)
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"

    @functools.cached_property
    def names(self):
        """All symbols, a tuple of str; the first has the id FIRST_ID."""
        opening = [f"({label}" for label in self.labels]
        closing = [f"){label}" for label in self.labels]
        return (*opening, *closing, *self.tags)

    def difference(self, other):
        """Names a label or tag that only one of two vocabularies has.

        Args:
            other: Symbols.

        Returns:
            str, such as "the label 'NP'"; empty where all ids mean the same.
        """
        for kind in ("label", "tag"):
            ours, theirs = (
                set(getattr(each, f"{kind}s")) for each in (self, other)
            )
            if ours != theirs:
                return f"the {kind} {min(ours ^ theirs)!r}"
        return ""

    @property
    def vocabulary_size(self):
        """Number of ids, those before FIRST_ID included."""
        return FIRST_ID + len(self.names)

    @property
    def tags_from(self):
        """The ids from here on are tags."""
        return FIRST_ID + 2 * len(self.labels)

    @functools.cached_property
    def _ids(self):
        return {name: FIRST_ID + n for n, name in enumerate(self.names)}

    def ids(self, symbols):
        """Returns the ids of symbols, without begin and end.

        Args:
            symbols: list of str, as `linearise` returns them.

        Returns:
            list of int.

        Raises:
            ValueError: a label or tag is none of these.
        """
        try:
            return [self._ids[symbol] for symbol in symbols]
        except KeyError as error:
            (symbol,) = error.args
            kind = "label" if symbol[:1] in ("(", ")") else "tag"
            raise ValueError(
                f"The {kind} {symbol.lstrip('()')!r} is in none of the trees "
                "that the symbols were made from."
            ) from None

    def symbols_of(self, ids):
        """Returns the symbols of ids.

        Args:
            ids: ints, without begin, end and padding.

        Returns:
            list of str.

        Raises:
            ValueError: an id is that of no symbol.
        """
        for id_ in ids:
            if not FIRST_ID <= id_ < self.vocabulary_size:
                raise ValueError(f"There is no symbol with the id {id_}.")
        return [self.names[id_ - FIRST_ID] for id_ in ids]


def _fields(kind):
    return {field.name for field in dataclasses.fields(kind)}


def _check_names(name, values):
    for value in values:
        if (
            not isinstance(value, str)
            or value.split() != [value]
            or set("()") & set(value)
        ):
            raise ValueError(f"One of the {name} cannot be one: {value!r}.")
    if list(values) != sorted(set(values)):
        raise ValueError(f"The {name} must be sorted, each there once.")
