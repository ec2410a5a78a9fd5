"""Text as no user means it, for a server that must not mind."""

import random

SPACES = " \t\n\r\u00a0\u2003\u2028\u3000\u200b\ufeff"
EMOJI = "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467\ufe0f\U0001f1eb"
RIGHT_TO_LEFT = "\u05d0\u05d1\u0627\u0644\u202e\u202b\u200f\u2067"
MARKS = "\u0301\u0308\u0323\u20dd\u0489\u1ab0"
PIECES = ["<s>", "</s>", "<unk>", "<pad>", "\u2581", "<0x41>", "\u2581\u2581"]
# Of the longest ones; five of these, once each, then a hundredth of all.
MEGABYTE = 1_000_000


def fuzzed(count: int, words: list[str], seed: int = 1) -> list[bytes]:
    """Inputs of every kind, the same for the same arguments.

    Args:
        count: how many.
        words: ordinary ones, put between.
        seed: of the choices.
    """
    generator = random.Random(seed)
    kinds = [kind for kind, share in SHARES.items() for _ in range(share)]
    huge = [
        generator.choice(words).encode() * (MEGABYTE // 4),
        "\U0001f600".encode() * (MEGABYTE // 4),
        b"\x00" * MEGABYTE,
        b"\x80" * MEGABYTE,
        ("e" + "\u0301" * (MEGABYTE // 2)).encode(),
    ]
    made = [
        generator.choice(kinds)(generator, words)
        for _ in range(count - len(huge))
    ]
    made += [text[:MEGABYTE] for text in huge]
    generator.shuffle(made)
    return made


def _bytes(generator, words):
    return generator.randbytes(generator.randrange(200))


def _with_nul(generator, words):
    return b"\x00".join(
        word.encode() for word in generator.choices(words, k=5)
    ) + b"\x00" * generator.randrange(9)


def _surrogates(generator, words):
    lone = chr(generator.randrange(0xD800, 0xE000))
    text = _joined(generator, [*words, lone], 12, "")
    return text.encode("utf-8", "surrogatepass")


def _emoji(generator, words):
    return _joined(generator, [*EMOJI, " ", words[0]], 60, "").encode()


def _right_to_left(generator, words):
    return _joined(generator, [*RIGHT_TO_LEFT, " ", words[0]], 60, "").encode()


def _marks(generator, words):
    text = "".join(
        letter + _joined(generator, MARKS, 40, "")
        for letter in generator.choice(words)
    )
    return text.encode()


def _any_characters(generator, words):
    numbers = [generator.randrange(0x110000) for _ in range(30)]
    return "".join(map(chr, numbers)).encode("utf-8", "replace")


def _controls(generator, words):
    text = _joined(generator, [*map(chr, range(0xA0)), *words], 60, "")
    return text.encode()


def _pieces(generator, words):
    return _joined(generator, [*PIECES, " ", *words[:5]], 20, "").encode()


def _spaces(generator, words):
    return _joined(generator, SPACES, 3000, "").encode()


def _ten_thousand_words(generator, words):
    return " ".join(generator.choices(words, k=10_000)).encode()


def _one_long_word(generator, words):
    letters = "".join(generator.choices(words, k=MEGABYTE // 4))
    return letters.encode()[:MEGABYTE]


def _joined(generator, items, most, separator):
    count = generator.randrange(most + 1)
    return separator.join(generator.choices(items, k=count))


SHARES = {
    _bytes: 14,
    _with_nul: 8,
    _surrogates: 9,
    _emoji: 10,
    _right_to_left: 9,
    _marks: 9,
    _any_characters: 10,
    _controls: 10,
    _pieces: 12,
    _spaces: 7,
    _ten_thousand_words: 1,
    _one_long_word: 1,
}
