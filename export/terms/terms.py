"""Terms: words whose translations are given. Needs no TensorFlow.

A unit of text is a word, or a single character of another kind: punctuation, or
a letter of a script without spaces. Terms are found by the units of a sentence.
"""

import functools
import re
import typing
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence

from export.common.errors import InputError
from export.common.storage import AnyPath
from export.documents.patterns import ADDRESS, NO_SPACES
from export.documents.placeholder_finder import PlaceholderFinder
from export.lines.files import read_lines
from export.terms.kept_items import KINDS, find_changes, find_items

# Besides dashes, currency, opening brackets and quotes.
_BEFORE_WORDS = "▁'\"’/¿¡#@"
_ADDRESS, _NO_SPACE = re.compile(ADDRESS), re.compile(f"[{NO_SPACES}]")


class Term(typing.NamedTuple):
    """A term that occurs in a sentence, and its translation.

    Attributes:
        source: the variant that occurs.
        target: variants, one of which the translation contains, joined by "|".
        is_kept: whether it is an item of the text, whose target is itself.
    """

    source: str
    target: str
    is_kept: bool = False

    @property
    def variants(self) -> list[str]:
        """Variants of the target."""
        return self.target.split("|")


class Terms:
    """Finds the terms of a sentence.

    Args:
        pairs: pairs of source and target; variants of either side, such as
            inflections, are separated by "|".
        name: where the pairs are from, for messages.
        keep: kinds of items that translations contain as the text has them:
            "urls" (also mail addresses), "emoji", "numbers", "placeholders",
            and "rare", words with characters that the vocabulary spells as
            bytes.
        placeholders: regular expressions of more placeholders.

    It is false if it has neither pairs nor kinds. Raises InputError for an
    empty side, for a source with several targets, for another kind, and as
    PlaceholderFinder does.
    """

    def __init__(
        self,
        pairs: Iterable[tuple[str, str]] = (),
        name: str = "terms",
        keep: Collection[str] = (),
        placeholders: Iterable[str] = (),
    ):
        self.name, self.keep = name, frozenset(keep)
        self.placeholders = PlaceholderFinder(placeholders)
        if not self.keep <= {*KINDS}:
            raise InputError(
                f"Expected kinds of text to keep among {', '.join(KINDS)}, got "
                f"{', '.join(keep)}."
            )
        self._targets: dict[str, tuple[str, ...]] = {}
        self._lines: dict[str, int] = {}
        for number, (source, target) in enumerate(pairs, 1):
            sources, targets = map(_split_variants, (source, target))
            for side, variants in ("source", sources), ("target", targets):
                if not variants:
                    raise InputError(
                        f"Line {number} of {name} has an empty {side}; "
                        "expected a term, a tab and its translation."
                    )
            for variant in sources:
                earlier = self._lines.setdefault(variant, number)
                if self._targets.setdefault(variant, targets) != targets:
                    raise InputError(
                        f"Lines {earlier} and {number} of {name} translate "
                        f"{variant!r} differently; separate variants of one "
                        'translation by "|".'
                    )
        # A trie of units, with the targets of a term that ends under None.
        self._trie: dict[str | None, typing.Any] = {}
        for variant, targets in self._targets.items():
            node = self._trie
            for unit in _units(variant):
                node = node.setdefault(unit, {})
            node[None] = targets

    @classmethod
    def from_file(
        cls,
        path: "str | AnyPath",
        keep: Collection[str] = (),
        placeholders: Iterable[str] = (),
    ) -> typing.Self:
        """Reads a file of lines: source TAB target.

        Raises InputError if it cannot be read, or as the class does.
        """
        return cls(_read_pairs(path), str(path), keep, placeholders)

    def __bool__(self):
        return bool(self._targets or self.keep)

    def find_changes(self, source: str, target: str) -> list[str]:
        """Returns the kept items that a translation has not as often."""
        return find_changes(source, target, self.keep, self.placeholders)

    def find(self, text: str, rare: Collection[str] = ()) -> list[Term]:
        """Returns the Terms of a sentence, each once.

        Terms are found as whole words, in the case in which they are given,
        and not within addresses that are kept. Of the kind "rare" are the words
        in `rare`. Items that are part of a term are not kept.
        """
        items = find_items(text, self.keep, rare, self.placeholders)
        if "urls" in self.keep:
            text = _ADDRESS.sub("\ufffc", text)
        found: dict[tuple[str, ...], str] = {}
        units = _units(text)
        composed = [*map(_compose, units)]
        for start, first in enumerate(composed):
            node = self._trie.get(first.lstrip())
            end = start + 1
            while node is not None:
                if None in node and node[None] not in found:
                    # As the text has it, for the graph of a server.
                    source = "".join(units[start:end]).lstrip()
                    found[node[None]] = source
                node = node.get(composed[end]) if end < len(units) else None
                end += 1
        terms = [
            Term(source, "|".join(targets)) for targets, source in found.items()
        ]
        return terms + [
            Term(item, "|".join(variants), is_kept=True)
            for item, variants in items.items()
            if not any(item in term.source for term in terms)
        ]

    def targets(self) -> Iterator[tuple[int, str]]:
        """Yields (line number, target variant) for all variants."""
        for source, targets in self._targets.items():
            for target in targets:
                yield self._lines[source], target


def request_inputs(
    sentences: Sequence[Sequence[Term]],
) -> dict[str, list[list[str]]]:
    """Returns inputs of the signature `translate_with_terms`.

    All lists are padded to the longest with "".
    """
    width = max([1, *map(len, sentences)])
    padded = [
        [*terms, *[Term("", "")] * (width - len(terms))] for terms in sentences
    ]
    return {
        "source_terms": [[term.source for term in row] for row in padded],
        "target_terms": [[term.target for term in row] for row in padded],
    }


@functools.cache
def is_joined(character: str) -> bool:
    """Returns whether a character forms words with its neighbors.

    True for letters, their marks and digits, except in scripts without spaces.
    """
    kind = unicodedata.category(character)[0]
    return kind in "LMN" and not _NO_SPACE.match(character)


def is_before_word(character: str) -> bool:
    """Returns whether a word may follow a character without a space."""
    kind = unicodedata.category(character)
    is_mark = character in _BEFORE_WORDS or kind in ("Pd", "Ps", "Pi", "Sc")
    return is_mark or _NO_SPACE.match(character) is not None


def _read_pairs(path):
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise InputError(
                f"Line {number} of {path} has {len(columns)} columns; expected "
                "2, a term, a tab and its translation."
            )
        yield columns


def _split_variants(text):
    variants = (" ".join(each.split()) for each in _compose(text).split("|"))
    return tuple(dict.fromkeys(filter(None, variants)))


def _units(text):
    """Returns the units of a text, those after a space with the space."""
    units = []
    for word in text.split():
        begin, start = " " if units else "", 0
        for end in range(1, len(word)):
            if not (is_joined(word[end - 1]) and is_joined(word[end])):
                units.append(begin + word[start:end])
                begin, start = "", end
        units.append(begin + word[start:])
    return units


def _compose(text):
    """Returns a text with composed characters."""
    return unicodedata.normalize("NFC", text)
