"""Terms: words whose translations are given. Needs no TensorFlow.

A unit of text is a word, or a single character of another kind: punctuation, or
a letter of a script without spaces. Terms are found by the units of a sentence.
"""

import functools
import re
import typing
import unicodedata

from export.common.errors import InputError
from export.lines.files import read_lines

# Scripts without spaces between words: Thai, Lao, Tibetan, Burmese, Khmer,
# Chinese and Japanese.
NO_SPACES = (
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\u312f\u31a0-\u9fff"
    "\uf900-\ufaff\uff66-\uff9f\U00016fe0-\U00018dff\U0001b000-\U0001b16f"
    "\U00020000-\U0003ffff]"
)
# Besides dashes and opening brackets and quotes.
_BEFORE_WORDS = "▁'\"’/¿¡"


class Term(typing.NamedTuple):
    """A term that occurs in a sentence, and its translation.

    Attributes:
        source: the variant that occurs.
        target: variants, one of which the translation contains, joined by "|".
    """

    source: str
    target: str


class Terms:
    """Finds the terms of a sentence.

    Args:
        pairs: pairs of source and target, str; variants of either side, such as
            inflections, are separated by "|".
        name: where the pairs are from, for messages.

    Raises InputError for an empty side, and for a source with several targets.
    """

    def __init__(self, pairs, name="terms"):
        self.name = name
        self._targets, self._lines = {}, {}
        for number, (source, target) in enumerate(pairs, 1):
            sources, targets = map(_split_variants, (source, target))
            for side, variants in ("source", sources), ("target", targets):
                if not variants:
                    raise InputError(
                        f"Line {number} of {name} has an empty {side}; "
                        "expected a term, a tab and its translation."
                    )
            for variant in sources:
                key = _key(_units(variant))
                earlier = self._lines.setdefault(key, number)
                if self._targets.setdefault(key, targets) != targets:
                    raise InputError(
                        f"Lines {earlier} and {number} of {name} translate "
                        f"{variant!r} differently; separate variants of one "
                        'translation by "|".'
                    )
        self._sizes = sorted({len(key) // 2 for key in self._targets})

    @classmethod
    def from_file(cls, path):
        """Reads a file of lines: source TAB target.

        Raises InputError if it cannot be read, or as the class does.
        """
        return cls(_read_pairs(path), str(path))

    def find(self, text):
        """Returns the Terms of a sentence, each once, as a list.

        Terms are found as whole words, in the case in which they are given.
        """
        found, units = {}, _units(text)
        for size in self._sizes:
            for start in range(len(units) - size + 1):
                key = _key(units[start : start + size])
                targets = self._targets.get(key)
                if targets is not None:
                    found.setdefault(targets, "".join(key))
        return [
            Term(source, "|".join(targets)) for targets, source in found.items()
        ]

    def targets(self):
        """Yields (line number, target variant) for all variants."""
        for key, targets in self._targets.items():
            for target in targets:
                yield self._lines[key], target


def request_inputs(sentences):
    """Returns inputs of the signature `translate_with_terms`, a dict.

    `sentences` are lists of Term; all are padded to the longest with "".
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
def is_joined(character):
    """Returns whether a character forms words with its neighbors.

    True for letters, their marks and digits, except in scripts without spaces.
    """
    kind = unicodedata.category(character)[0]
    return kind in "LMN" and not re.match(NO_SPACES, character)


def is_before_word(character):
    """Returns whether a word may follow a character without a space."""
    kind = unicodedata.category(character)
    return character in _BEFORE_WORDS or kind in ("Pd", "Ps", "Pi")


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
    variants = (" ".join(each.split()) for each in text.split("|"))
    return tuple(dict.fromkeys(filter(None, variants)))


def _units(text):
    """Returns pairs: a unit, and " " if a space follows it, else ""."""
    units = []
    for word in text.split():
        start = 0
        for end in range(1, len(word)):
            if not (is_joined(word[end - 1]) and is_joined(word[end])):
                units.append((word[start:end], ""))
                start = end
        units.append((word[start:], " "))
    return units


def _key(units):
    """Returns the units and spaces of a term, without a space at its end."""
    key = [part for unit in units for part in unit]
    return (*key[:-1], "")
