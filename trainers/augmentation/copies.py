"""Adds text to both sides of some pairs that a translation has to copy.

A corpus has few emoji, rare letters, long numbers, addresses and foreign words,
so a model cannot learn from it to copy them.
"""

import collections
import functools
import random
import re
import string
import sys
import unicodedata
import zlib
from collections.abc import Iterable, Iterator

import numpy as np

# Numbers of items in a pair, equally likely.
_NUM_ITEMS = (1, 1, 1, 2, 2, 3, 4)
_END_PROBABILITY = 0.4
# SentencePiece writes them for white space and for unknown text.
_RESERVED = "\u2581\u2585"
_SYMBOL_RANGES = ((0x2190, 0x2C00), (0x1F000, 0x1FB00))
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_VARIATION_SELECTOR = "\ufe0f"
# Letters come in blocks of 2**7 code points, mostly of one script. Up to the
# code point there are most alphabets, then mostly ideographs and syllables.
_BLOCK_BITS, _LAST_ALPHABET = 7, 0x3000
_VOWELS, _CONSONANTS = "aeiouy", "bcdfghjklmnpqrstvwxz"
_DOMAINS = ("com", "org", "net", "info", "eu", "fr", "de", "io", "co.uk")


def add_copies(
    pairs: Iterable[tuple[str, str]], rate: float
) -> Iterator[tuple[str, str]]:
    """Yields (source, target) pairs, about `rate` of them with copied text.

    Up to four items are inserted in the same order on both sides: at the ends,
    beside words that are the same on both sides, and otherwise at the same
    share of the words between those. They depend on the pair alone.
    """
    limit = rate * 2**32
    for source, target in pairs:
        text = f"{source}\t{target}"
        if zlib.crc32(text.encode()) < limit:
            # A str is hashed in the same way by every Python.
            items = _Items(random.Random(text), text)
            source, target = _insert(items, source, target)
        yield source, target


def _insert(items, source, target):
    rng = items.rng
    inserted = [items.make() for _ in range(rng.choice(_NUM_ITEMS))]
    source_words, target_words = source.split(" "), target.split(" ")
    ends = 0, len(source_words)
    indices = sorted(
        rng.choice(ends)
        if rng.random() < _END_PROBABILITY
        else rng.randint(*ends)
        for _ in inserted
    )
    anchors = _anchors(source_words, target_words)
    others = np.interp(indices, *zip(*anchors)).round().astype(int)
    # From the end, since an insertion moves what follows.
    for item, index, other in reversed([*zip(inserted, indices, others)]):
        source_words.insert(index, item)
        target_words.insert(other, item)
    return " ".join(source_words), " ".join(target_words)


def _anchors(source_words, target_words):
    """Returns ascending pairs of word indices at the same place.

    Those of the ends, and before and after words that occur once on each side.
    """
    counts = [
        collections.Counter(each) for each in (source_words, target_words)
    ]
    others = {word: index for index, word in enumerate(target_words)}
    anchors = [(0, 0)]
    for index, word in enumerate(source_words):
        if counts[0][word] == counts[1][word] == 1:
            other = others[word]
            if other >= anchors[-1][1]:
                anchors += [(index, other), (index + 1, other + 1)]
    return [*anchors, (len(source_words), len(target_words))]


class _Items:
    """Makes items to copy; `text` has words to use in addresses."""

    def __init__(self, rng, text):
        self.rng = rng
        self._words = re.findall("[a-z]{3,}", text.lower())

    def make(self):
        """Returns a str without white space."""
        makers = (
            self._emoji,
            self._rare_word,
            self._number,
            self._address,
            self._name,
        )
        return self.rng.choice(makers)()

    def _emoji(self):
        rng = self.rng
        character = rng.choice(_symbols())
        kind = rng.random()
        if kind < 0.1:
            return character + chr(rng.choice(_SKIN_TONES))
        if kind < 0.2:
            return character + _VARIATION_SELECTOR
        return character * rng.choice((1, 1, 1, 1, 2, 3))

    def _rare_word(self):
        """Returns letters of one script."""
        rng = self.rng
        letters = rng.choice(rng.choice(_letter_blocks()))
        length = rng.choice((1, 1, 1, 2, 3, 5))
        return "".join(rng.choice(letters) for _ in range(length))

    def _number(self):
        rng = self.rng
        digits = str(rng.randrange(10 ** rng.randint(1, 8)))
        if rng.random() < 0.6:
            return digits
        separator = rng.choice(".,:-/")
        return f"{digits}{separator}{rng.randrange(10 ** rng.randint(1, 3))}"

    def _address(self):
        """Returns a URL, an e-mail address, or a name of the web."""
        rng = self.rng
        host = f"{self._word()}.{rng.choice(_DOMAINS)}"
        kind = rng.random()
        if kind < 0.1:
            return f"{self._word()}@{host}"
        if kind < 0.2:
            return rng.choice("@#") + self._word()
        if rng.random() < 0.2:
            host = f"{self._word()}-{host}"
        schemes = ("https://", "https://www.", "http://", "http://www.", "www.")
        parts = [rng.choice(schemes), host]
        for _ in range(rng.choice((0, 1, 1, 2))):
            parts += rng.choice("//-"), rng.choice((self._word, self._code))()
        if rng.random() < 0.2:
            parts += "?", rng.choice(("q", "id", "page")), "=", self._code()
        return "".join(parts)

    def _name(self):
        word = self._made_up_word()
        forms = (word, word.capitalize(), word.upper(), self._code())
        return self.rng.choice(forms)

    def _word(self):
        if self._words and self.rng.random() < 0.6:
            return self.rng.choice(self._words)
        return self._made_up_word()

    def _made_up_word(self):
        rng = self.rng
        return "".join(
            rng.choice(_CONSONANTS) + rng.choice(_VOWELS)
            for _ in range(rng.randint(1, 4))
        )

    def _code(self):
        rng = self.rng
        characters = string.digits
        if rng.random() < 0.5:
            characters += string.ascii_letters
        return "".join(rng.choices(characters, k=rng.randint(1, 5)))


@functools.cache
def _symbols():
    """Returns emoji and symbols like them."""
    return [
        chr(code)
        for first, end in _SYMBOL_RANGES
        for code in range(first, end)
        if unicodedata.category(chr(code)) == "So"
        and chr(code) not in _RESERVED
    ]


@functools.cache
def _letter_blocks():
    """Returns blocks of letters of alphabets, and those of other scripts."""
    blocks = {}
    for code in range(0x80, sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in ("Ll", "Lo", "Lu"):
            blocks.setdefault(code >> _BLOCK_BITS, []).append(chr(code))
    last = _LAST_ALPHABET >> _BLOCK_BITS
    alphabets = [letters for i, letters in blocks.items() if i < last]
    return alphabets, [letters for i, letters in blocks.items() if i >= last]
