"""Whatever comes in, the server answers, and its neighbours notice nothing."""

import random

import numpy as np
import pytest

from tests import made_up_text
from tests.export.fuzzed import fuzzed

GOOD = made_up_text.sentences()[:4]
WORDS = sorted({word for line in GOOD for word in line.rstrip(".").split()})
BATCH = 16
OTHERS = ["n_best", "align", "score", "lengths"]
# Of the whole process, above what ordinary batches of that size took.
MEGABYTES = 400
# Processor time of a batch, over that of an ordinary one that is as full.
SLOWER = 30


class Fuzz:
    """Asks about fuzzed texts in batches with good ones between."""

    def __init__(self, server, exported):
        self._server, self._path = server, exported
        self._generator = random.Random(2)
        self.alone = self.ask("serving_default", GOOD)
        for signature in OTHERS:
            more = {"translation": GOOD} if signature == "score" else {}
            self.ask(signature, GOOD, **more)
        full = ["g " * 300] * BATCH
        for _ in range(2):
            self._start = self.usage()
            self.ask("serving_default", full)
        self.ordinary = self.usage()[1] - self._start[1]
        self.peak, self.slowest, self.flips = self.usage()[0], 0.0, 0

    def usage(self):
        return self._server.usage()

    def ask(self, signature, texts, **more):
        answer = self._server.run(self._path, signature, text=texts, **more)
        return answer.arrays

    def mixed(self, texts, signature="serving_default"):
        """Asks with two good ones between; returns the others' answers."""
        batch = list(texts)
        good = self._generator.sample(range(len(GOOD)), 2)
        places = [self._generator.randrange(len(batch) + 1) for _ in good]
        places = [min(places), max(places) + 1]
        for place, number in zip(places, good):
            batch.insert(place, GOOD[number])
        more = {"translation": batch} if signature == "score" else {}
        started = self.usage()[1]
        answer = self.ask(signature, batch, **more)
        self.slowest = max(self.slowest, self.usage()[1] - started)
        check_sane(answer, len(batch))
        if signature == "serving_default":
            for place, number in zip(places, good):
                check_same(answer, place, self.alone, number)
        others = [i for i in range(len(batch)) if i not in places]
        return {name: array[others] for name, array in answer.items()}

    def both_ways(self, texts):
        """Asks mixed and alone, and compares."""
        together = self.mixed(texts)
        for number, text in enumerate(texts):
            answer = self.ask("serving_default", [text])
            same = answer["translation"][0] == together["translation"][number]
            # Rounding may decide between beams that are as good; the random
            # weights multiply it by more than trained ones do.
            self.flips += not same
            if same:
                np.testing.assert_allclose(
                    answer["score"][0],
                    together["score"][number],
                    rtol=5e-5,
                    atol=1e-4,
                )
            assert answer["truncated"][0] == together["truncated"][number]


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
    np.testing.assert_allclose(
        answer["score"][place], expected["score"][number], atol=1e-4
    )


def run(fuzz, count, alone_every, other_every):
    texts = fuzzed(count, WORDS)
    for start in range(0, count, BATCH - 2):
        batch = texts[start : start + BATCH - 2]
        number = start // (BATCH - 2)
        if number % alone_every == 0:
            fuzz.both_ways(batch)
        else:
            fuzz.mixed(batch)
        if number % other_every == 0:
            fuzz.mixed(batch, OTHERS[number // other_every % len(OTHERS)])
    grown = fuzz.usage()[0] - fuzz.peak
    print(
        f"{count} texts: {grown:.0f} MB above {fuzz.peak:.0f}; the slowest "
        f"batch took {fuzz.slowest:.2f} s of processor time, a full ordinary "
        f"one {fuzz.ordinary:.2f} s; {fuzz.flips} read otherwise alone"
    )
    assert grown < MEGABYTES
    assert fuzz.slowest < SLOWER * fuzz.ordinary
    assert fuzz.flips <= count / 500


def test_a_few_hundred_odd_texts(server, exported):
    run(Fuzz(server, exported), 280, alone_every=5, other_every=4)


@pytest.mark.slow
def test_five_thousand_odd_texts(server, exported):
    run(Fuzz(server, exported), 5000, alone_every=1, other_every=1)


def test_tokens_of_any_numbers(server, exported):
    generator = np.random.default_rng(3)
    good = np.array([[50, 60, 3]], np.int32)
    alone = server.run(exported, "tokens", ids=good).arrays
    edges = [-(2**31), -1, 0, 1, 2, 3, 199, 200, 2**31 - 1]
    for _ in range(30):
        rows, columns = generator.integers(1, 9), generator.integers(3, 60)
        ids = generator.integers(-3, 210, (rows, columns))
        odd = generator.random((rows, columns)) < 0.3
        ids = np.where(odd, generator.choice(edges, (rows, columns)), ids)
        ids[0] = 0
        ids[0, :3] = good
        answer = server.run(exported, "tokens", ids=ids.astype("int32")).arrays
        assert answer["ids"].shape[:2] == (rows, 4)
        assert (answer["ids"] >= 0).all() and (answer["ids"] < 200).all()
        assert np.isfinite(answer["scores"]).all()
        room = alone["ids"].shape[2]
        np.testing.assert_array_equal(
            answer["ids"][0, :, :room], alone["ids"][0]
        )
        assert not answer["ids"][0, :, room:].any()
        np.testing.assert_allclose(
            answer["scores"][0], alone["scores"][0], atol=1e-4
        )
