"""Adds text to both sides of some pairs that a translation has to copy.

A corpus has few emoji, rare letters, long numbers, addresses and foreign words,
so a model cannot learn from it to copy them.
"""

import functools
import random
import string
import sys
import unicodedata
import zlib

import numpy as np

_MAX_ITEMS = 4
# Letters come in blocks of about this many code points, mostly of one script.
_BLOCK_BITS = 7
# Before it lie most alphabets, after it mostly ideographs and syllables.
_LAST_ALPHABET = 0x3000
_VOWELS, _CONSONANTS = "aeiouy", "bcdfghjklmnpqrstvwxz"
_DOMAINS = ("com", "org", "net", "fr", "de", "io", "co.uk")
_SYMBOL_RANGES = ((0x2190, 0x2C00), (0x1F000, 0x1FB00))
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_VARIATION_SELECTOR = "\ufe0f"
# SentencePiece writes them for white space and for unknown text.
_RESERVED = "\u2581\u2585"


def add_copies(pairs, rate, can_encode=None):
    """Yields (source, target) pairs, about `rate` of them with copied text.

    Up to four items are inserted in the same order on both sides: at the ends,
    beside words that are the same on both sides, and otherwise at the same
    share of the words. It depends on the pair alone. `can_encode` gets an item;
    those for which it returns False are omitted.
    """
    limit = rate * 2**32
    for source, target in pairs:
        text = f"{source}\t{target}"
        if zlib.crc32(text.encode("utf-8", "surrogatepass")) < limit:
            rng = random.Random(text)
            items = _make_items(rng)
            if can_encode:
                items = [*filter(can_encode, items)]
            source, target = _insert(items, source, target, rng)
        yield source, target


def _insert(items, source, target, rng):
    source_words, target_words = source.split(" "), target.split(" ")
    places = np.interp(
        range(len(source_words) + 1), *_anchors(source_words, target_words)
    )
    # The ends are right in every language.
    ends = 0, len(source_words)
    indices = sorted(
        rng.choice(ends) if rng.random() < 0.4 else rng.randint(*ends)
        for _ in items
    )
    # From the end, since insertions move what follows.
    for item, index in zip(reversed(items), reversed(indices)):
        source_words.insert(index, item)
        target_words.insert(round(places[index]), item)
    return " ".join(source_words), " ".join(target_words)


def _anchors(source_words, target_words):
    """Returns ascending indices of words at the same place on each side.

    Those of words that occur once on both sides, and of the words after them.
    """
    anchors = [(0, 0)]
    for index, word in enumerate(source_words):
        if source_words.count(word) == target_words.count(word) == 1:
            other = target_words.index(word)
            if other >= anchors[-1][1]:
                anchors += [(index, other), (index + 1, other + 1)]
    return zip(*anchors, (len(source_words), len(target_words)))


def _make_items(rng):
    count = rng.choice(range(1, _MAX_ITEMS + 1))
    makers = (_emoji, _rare_word, _number, _address, _name)
    return [rng.choice(makers)(rng) for _ in range(count)]


def _emoji(rng):
    character = rng.choice(_emoji_characters())
    kind = rng.random()
    if kind < 0.1:
        return character + chr(rng.choice(_SKIN_TONES))
    if kind < 0.2:
        return character + _VARIATION_SELECTOR
    return character * rng.choice((1, 1, 1, 2, 3))


@functools.cache
def _emoji_characters():
    return [
        chr(code)
        for first, end in _SYMBOL_RANGES
        for code in range(first, end)
        if unicodedata.category(chr(code)) == "So"
        and chr(code) not in _RESERVED
    ]


def _rare_word(rng):
    """Returns letters of one script."""
    letters = rng.choice(_letter_blocks()[rng.random() < 0.5])
    length = rng.choice((1, 1, 2, 3, 4, 6))
    return "".join(rng.choice(letters) for _ in range(length))


@functools.cache
def _letter_blocks():
    """Returns blocks of letters of alphabets, and of other scripts."""
    blocks = {}
    for code in range(0x80, sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in ("Ll", "Lo", "Lu"):
            blocks.setdefault(code >> _BLOCK_BITS, []).append(chr(code))
    first = _LAST_ALPHABET >> _BLOCK_BITS
    alphabets = [block for i, block in blocks.items() if i < first]
    return [block for i, block in blocks.items() if i >= first], alphabets


def _number(rng):
    digits = str(rng.randrange(10 ** rng.randint(1, 10)))
    kind = rng.random()
    if kind < 0.7:
        return digits
    separator = rng.choice(".,:-/")
    return f"{digits}{separator}{rng.randrange(10 ** rng.randint(1, 3))}"


def _address(rng):
    """Returns a URL, an e-mail address, or a name of the web."""
    host = f"{_word(rng)}.{rng.choice(_DOMAINS)}"
    kind = rng.random()
    if kind < 0.15:
        return f"{_word(rng)}@{host}"
    if kind < 0.25:
        return rng.choice("@#") + _word(rng)
    parts = [rng.choice(("https://", "https://www.", "http://", "www."))]
    parts.append(host)
    for _ in range(rng.randint(0, 2)):
        parts += rng.choice("/-"), rng.choice((_word, _code))(rng)
    if rng.random() < 0.2:
        parts.append(f"?{rng.choice(string.ascii_lowercase)}={_code(rng)}")
    return "".join(parts)


def _name(rng):
    word = _word(rng)
    return rng.choice((word, word.capitalize(), word.upper(), _code(rng)))


def _word(rng):
    """Returns a word that could be of a foreign language."""
    return "".join(
        rng.choice(_CONSONANTS) + rng.choice(_VOWELS)
        for _ in range(rng.randint(1, 4))
    )


def _code(rng):
    characters = string.ascii_letters + string.digits
    return "".join(rng.choices(characters, k=rng.randint(1, 6)))
