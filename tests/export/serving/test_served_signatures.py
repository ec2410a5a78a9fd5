"""The signatures beside serving_default, from the serving process."""

import numpy as np
import pytest

from export.serving.served_translator import ServedTranslator
from export.tokenizers.tokenizer import Tokenizer
from keras_transformer.config import UNKNOWN_ID
from tests import made_up_text
from tests.export import tiny
from tests.export.server import Refused

TEXTS = [*made_up_text.sentences()[:9], "", " \t", "ba bi " * 500]
BLANKS = [9, 10]


@pytest.fixture(scope="module", autouse=True)
def cut_alike(translator):
    """Our own Translator cuts sources as the export does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translator, "max_source_tokens", tiny.MAX_SOURCE_TOKENS)
        yield


@pytest.fixture
def ask(server, exported):
    return lambda signature, **inputs: server.run(exported, signature, **inputs)


def read(array):
    """Bytes to str, in any shape."""
    return np.vectorize(bytes.decode, otypes=[object])(array).tolist()


def test_the_first_of_n_best_is_the_answer_of_serving_default(ask):
    best = ask("serving_default", text=TEXTS).arrays
    n_best = ask("n_best", text=TEXTS).arrays
    assert n_best["translations"][:, 0].tolist() == best["translation"].tolist()
    np.testing.assert_array_equal(n_best["scores"][:, 0], best["score"])


def test_rows_of_alignments_sum_to_1_over_the_source(ask):
    answer = ask("align", text=TEXTS).arrays
    names = ("source_tokens", "target_tokens", "alignment")
    rows = zip(
        *map(read, (answer[each] for each in names[:2])), answer[names[2]]
    )
    for number, (source, target, weights) in enumerate(rows):
        shape = [sum(map(bool, target)), sum(map(bool, source))]
        if number in BLANKS:
            assert shape == [0, 0]
        else:
            assert source[shape[1] - 1] == target[shape[0] - 1] == "</s>"
        expected = np.zeros(weights.shape[0])
        expected[: shape[0]] = 1
        np.testing.assert_allclose(weights.sum(axis=1), expected, atol=1e-5)
        assert not weights[:, shape[1] :].any()


def test_pieces_spell_the_text(ask):
    answer = ask("align", text=TEXTS[:9]).arrays
    for text, name in ((TEXTS, "source_tokens"), (None, "target_tokens")):
        text = text or read(answer["translation"])
        for line, pieces in zip(text, read(answer[name])):
            spelt = "".join(pieces).removesuffix("</s>").replace("▁", " ")
            assert spelt.split() == line.split()


def test_score_of_an_endless_translation_is_answered(ask, translator):
    given = ["ba bi " * 2000, "ka."]
    answer = ask("score", text=TEXTS[:2], translation=given).arrays
    np.testing.assert_allclose(
        answer["score"], translator.score(TEXTS[:2], given), rtol=1e-5
    )


@pytest.mark.parametrize("given", [["ba."], ["ba."] * 3, []])
def test_score_wants_a_translation_of_each_text(ask, given):
    with pytest.raises(Refused, match="as many translations"):
        ask("score", text=TEXTS[:2], translation=given)


def test_tokens_of_a_source_with_a_vocabulary_of_its_own():
    """What the target's has not is known; what neither has is not."""
    model = tiny.model(source_vocabulary_size=230)
    tokenizer = Tokenizer(made_up_text.vocabulary())
    served = ServedTranslator(model, tokenizer, tiny.MAX_SOURCE_TOKENS)
    known, unknown, beyond = (
        served.tokens(np.array([[number, 3]], np.int32))["scores"].numpy()
        for number in (229, UNKNOWN_ID, 230)
    )
    np.testing.assert_array_equal(beyond, unknown)
    assert np.abs(known - unknown).max() > 1e-3


def test_tokens_of_any_ids_are_answered(ask):
    good = [[50, 60, 3, 0]]
    odd = [[-5, 10**6, 3, 0], [0, 0, 0, 0], [0, 7, 0, 3], [9, 9, 9, 9]]
    answer = ask("tokens", ids=np.array(good + odd, np.int32)).arrays
    alone = ask("tokens", ids=np.array(good, np.int32)).arrays
    np.testing.assert_allclose(answer["scores"][:1], alone["scores"], atol=1e-4)
    long = np.full((2, 900), 9, np.int32)
    assert ask("tokens", ids=long).arrays["scores"].shape == (2, 4)
    assert not answer["ids"][2].any()


LIMIT = tiny.MAX_SOURCE_TOKENS
CHARACTERS = 64 * LIMIT
IS_CUT = {
    "": False,
    "g " * (LIMIT - 1): False,
    "g " * LIMIT: True,
    # Unknown characters in a row are one piece.
    "\U0001f600" * CHARACTERS: False,
    "\U0001f600" * (CHARACTERS + 1): True,
    # NUL is no character.
    "\x00" * CHARACTERS + "g": False,
    " " * (CHARACTERS + 1): True,
}


@pytest.mark.parametrize(
    "signature", ["serving_default", "n_best", "align", "lengths"]
)
def test_what_is_cut_is_said(ask, signature, translator):
    answer = ask(signature, text=list(IS_CUT)).arrays
    assert answer["truncated"].tolist() == list(IS_CUT.values())
    found = translator.translate(list(IS_CUT))
    assert [t.source_truncated for t in found] == list(IS_CUT.values())


def test_score_says_that_either_side_was_cut(ask):
    longest = LIMIT + tiny.CONFIG["max_output_extra"]
    given = ["g.", "g " * (longest - 1), "g " * longest]
    answer = ask("score", text=["g."] * 3, translation=given).arrays
    assert answer["truncated"].tolist() == [False, False, True]
    answer = ask("score", text=["g " * LIMIT], translation=["g."]).arrays
    assert answer["truncated"].tolist() == [True]


def test_tokens_say_what_was_cut(ask):
    rows = np.zeros((4, LIMIT + 3), np.int32)
    rows[0, :LIMIT] = 9
    rows[1, : LIMIT + 1] = 9
    # Little, but behind the limit.
    rows[2, 0], rows[2, LIMIT + 1] = 9, 3
    answer = ask("tokens", ids=rows).arrays
    assert answer["truncated"].tolist() == [False, True, True, False]
    short = ask("tokens", ids=np.array([[9] * (LIMIT - 1) + [3]], np.int32))
    cut = answer["scores"][1]
    np.testing.assert_allclose(short.arrays["scores"][0], cut, atol=1e-4)


def test_nul_counts_as_nothing(ask):
    answer = ask("n_best", text=["b\x00a\x00 bi.\x00", "ba bi."]).arrays
    first, second = answer["translations"].tolist()
    assert first == second
    np.testing.assert_allclose(*answer["scores"], atol=1e-5)


def test_empty_batches_have_empty_answers(ask):
    for signature in ("n_best", "align", "lengths"):
        answer = ask(signature, text=[]).arrays
        assert {len(array) for array in answer.values()} == {0}
    assert len(ask("score", text=[], translation=[]).arrays["score"]) == 0
    for shape in ((0, 5), (0, 0), (2, 0)):
        ids = np.zeros(shape, np.int32)
        assert len(ask("tokens", ids=ids).arrays["ids"]) == shape[0]


@pytest.mark.parametrize("signature", ["n_best", "align"])
def test_an_answer_does_not_depend_on_its_batch(ask, signature):
    together = ask(signature, text=TEXTS).arrays
    for number in (0, 4, 9):
        alone = ask(signature, text=[TEXTS[number]]).arrays
        for name, array in alone.items():
            # Others may need more room.
            room = tuple(slice(size) for size in array.shape[1:])
            part = together[name][(number, *room)]
            array = array[0]
            if together[name].dtype == object:
                assert np.array_equal(array, part)
            else:
                np.testing.assert_allclose(array, part, atol=1e-4)


@pytest.mark.parametrize("signature", ["n_best", "align", "lengths"])
def test_bytes_that_are_not_utf8_are_answered(ask, signature):
    answer = ask(signature, text=[b"ba \xff.", TEXTS[0]]).arrays
    same = ask(signature, text=["ba \ufffd.", TEXTS[0]]).arrays
    for name, array in answer.items():
        assert np.array_equal(array, same[name])
