"""Whatever comes in, the server answers, and its neighbors notice nothing."""

import random

import numpy as np
import pytest

from tests import made_up_text

GOOD = made_up_text.sentences()[:4]
WORDS = sorted({word for line in GOOD for word in line.rstrip(".").split()})
BATCH = 16
OTHERS = ["n_best", "align", "score", "lengths"]
# Of the whole process, above what ordinary batches of that size took.
MEGABYTES = 400
# Processor time of a batch, over that of an ordinary one that is as full.
SLOWER = 30

MILLION = 1_000_000
# Characters to join without order, and how many at most.
CHARACTERS = [
    ("\U0001f600\U0001f468\u200d\U0001f469\u200d\ufe0f\U0001f1eb ", 60),
    ("\u05d0\u05d1\u0627\u0644\u202e\u202b\u200f\u2067 ", 60),
    ("ab\u0301\u0308\u0323\u20dd\u0489\u1ab0", 90),
    (" \t\n\r\u00a0\u2003\u2028\u3000\u200b\ufeff", 3000),
    ([*map(chr, range(0xA0)), *WORDS], 60),
    (["<s>", "</s>", "<unk>", "<pad>", "\u2581", "<0x41>", " ", *WORDS], 20),
    ([chr(0xD800 + n) for n in range(9)] + WORDS, 12),
    ([chr(n * 1237) for n in range(900)], 30),
]
# One text of each kind of the longest.
HUGE = [
    " ".join(WORDS * 2000).encode(),
    "".join(WORDS * 20_000).encode()[:MILLION],
    "\U0001f600".encode() * (MILLION // 4),
    b"\x00" * MILLION,
    b"\x80" * MILLION,
    ("e" + "\u0301" * (MILLION // 2)).encode(),
]


def fuzzed(count):
    """Returns so many texts of every kind, as bytes."""
    generator = random.Random(1)
    texts = [*HUGE]
    while len(texts) < count:
        characters, most = generator.choice(CHARACTERS)
        size = generator.randrange(most)
        text = "".join(generator.choices(characters, k=size))
        texts += [
            text.encode("utf-8", "surrogatepass"),
            generator.randbytes(size),
            "\0".join(generator.choices(WORDS, k=5)).encode(),
        ]
    generator.shuffle(texts)
    return texts[:count]


class Fuzz:
    """Sends fuzzed texts in batches with good ones between."""

    def __init__(self, server, exported):
        self._server, self._path = server, exported
        self._generator = random.Random(2)
        self._alone = self.answer("serving_default", GOOD)
        for signature in OTHERS:
            self.answer(signature, GOOD)
        full = ["g " * 300] * BATCH
        for _ in range(2):
            started = server.usage()
            self.answer("serving_default", full)
        self.ordinary = server.usage()[1] - started[1]
        self.peak, self.slowest = server.usage()[0], 0.0

    def answer(self, signature, texts):
        more = {"translation": texts} if signature == "score" else {}
        run = self._server.run(self._path, signature, text=texts, **more)
        return run.arrays

    def mixed(self, texts, signature="serving_default"):
        """Sends them with two good ones between; checks the answers."""
        batch = list(texts)
        places = sorted(self._generator.sample(range(len(batch)), 2))
        for number, place in enumerate(places):
            batch.insert(place, GOOD[number])
        started = self._server.usage()[1]
        answer = self.answer(signature, batch)
        used = self._server.usage()[1] - started
        self.slowest = max(self.slowest, used)
        check_sane(answer, len(batch))
        if signature == "serving_default":
            for number, place in enumerate(places):
                check_same(answer, place, self._alone, number)


def check_sane(answer, count):
    for array in answer.values():
        assert len(array) == count
        if array.dtype == object:
            for text in array.flat:
                text.decode("utf-8")
        else:
            assert np.isfinite(array).all()


def check_same(answer, place, expected, number):
    for name in ("translation", "truncated"):
        assert answer[name][place] == expected[name][number]
    score, right = answer["score"][place], expected["score"][number]
    np.testing.assert_allclose(score, right, rtol=5e-5, atol=1e-4)


@pytest.mark.parametrize(
    "count", [112, pytest.param(5000, marks=pytest.mark.slow)]
)
def test_odd_texts_are_answered(server, exported, count):
    fuzz, texts = Fuzz(server, exported), fuzzed(count)
    for number, start in enumerate(range(0, count, BATCH - 2)):
        batch = texts[start : start + BATCH - 2]
        fuzz.mixed(batch)
        fuzz.mixed(batch, OTHERS[number % len(OTHERS)])
    grown = server.usage()[0] - fuzz.peak
    assert grown < MEGABYTES
    assert fuzz.slowest < SLOWER * fuzz.ordinary


def test_tokens_of_any_numbers(server, exported):
    generator = np.random.default_rng(3)
    edges = [-(2**31), -1, 0, 1, 2, 3, 199, 200, 2**31 - 1]
    for _ in range(6):
        rows, columns = generator.integers(1, 9), generator.integers(3, 60)
        ids = generator.integers(-3, 210, (rows, columns))
        odd = generator.random((rows, columns)) < 0.3
        ids = np.where(odd, generator.choice(edges, (rows, columns)), ids)
        answer = server.run(exported, "tokens", ids=ids.astype("int32")).arrays
        assert answer["ids"].shape[:2] == (rows, 4)
        assert (answer["ids"] >= 0).all() and (answer["ids"] < 200).all()
        assert np.isfinite(answer["scores"]).all()
