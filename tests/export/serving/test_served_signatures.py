"""The signatures, from a process that knows nothing but the server."""

import numpy as np
import pytest

from export.serving.served_translator import ServedTranslator
from export.terms.terms import Terms
from export.tokenizers.pretrained_tokenizers import TokenizerPair
from export.tokenizers.tokenizer import Tokenizer
from keras_transformer.config import UNKNOWN_ID
from tests import made_up_text
from tests.export import odd_vocabularies, tiny
from tests.export.server import Refused

TEXTS = [*made_up_text.sentences()[:9], "", " \t", "ba bi " * 500]
BLANKS = [9, 10]
LIMIT = tiny.MAX_SOURCE_TOKENS
CHARACTERS = 64 * LIMIT


@pytest.fixture
def ask(server, exported):
    def answer(signature="serving_default", **inputs):
        return server.run(exported, signature, **inputs)

    return answer


@pytest.fixture
def check(ask, truncating_translator):
    """Checks what serving_default says of texts against our Translator."""

    def check_texts(texts, readable=None):
        answer = ask(text=texts)
        expected = truncating_translator.translate(readable or texts)
        assert answer.texts("translation") == [t.text for t in expected]
        np.testing.assert_allclose(
            answer.arrays["score"], [t.score for t in expected], atol=1e-4
        )
        truncated = [t.source_truncated for t in expected]
        assert answer.arrays["truncated"].tolist() == truncated
        return answer

    return check_texts


def read(array):
    """Bytes to str, in any shape."""
    return np.vectorize(bytes.decode, otypes=[object])(array).tolist()


# Whether a text is truncated.
TRUNCATED = {
    "": False,
    "g " * (LIMIT - 3): False,
    "g " * (LIMIT - 1): False,
    "g " * LIMIT: True,
    "g " * (LIMIT + 1): True,
    # Unknown characters in a row are one token.
    "\U0001f600" * CHARACTERS: False,
    "\U0001f600" * (CHARACTERS + 1): True,
    # NUL is no character.
    "\x00" * CHARACTERS + "g": False,
    " " * (CHARACTERS + 1): True,
    TEXTS[-1]: True,
    TEXTS[0]: False,
}


def test_long_texts_are_truncated_and_harm_no_other(check, ask):
    answer = check(list(TRUNCATED))
    assert answer.arrays["truncated"].tolist() == list(TRUNCATED.values())
    for signature in ("n_best", "align", "lengths"):
        arrays = ask(signature, text=list(TRUNCATED)).arrays
        assert arrays["truncated"].tolist() == list(TRUNCATED.values())
    # What is behind the limit does not count.
    (long,) = ask(text=[TEXTS[-1]]).texts("translation")
    assert ask(text=[f"{TEXTS[-1]}ka."]).texts("translation") == [long]


def test_bytes_that_are_not_utf8_are_replaced(check, ask):
    texts = [b"\xff", b"ba \xc3", b"\xed\xa0\x80 ba.", b"\xf8\x88\x80\x80\x80"]
    readable = [text.decode("utf-8", "replace") for text in texts]
    check([TEXTS[0], *texts], [TEXTS[0], *readable])
    # NUL is dropped.
    check(["\u6f22\u5b57.", "e\u0301 \ufb01", "ba\x00bi", "\ufeff"])
    for signature in ("n_best", "align", "lengths"):
        answer = ask(signature, text=texts).arrays
        same = ask(signature, text=readable).arrays
        for name, array in answer.items():
            assert np.array_equal(array, same[name])


def test_wrong_requests_are_refused_and_harm_nothing(check, ask):
    for translations in (["ba."], []):
        with pytest.raises(Refused):
            ask("score", text=TEXTS[:2], translation=translations)
    check(TEXTS[:2])


def test_the_serving_process_has_neither_keras_nor_this_package(server, ask):
    ask(text=[])
    loaded = server.modules()
    ours = {name for name in loaded if name.startswith("export.")}
    # What every command checks before its imports.
    assert ours == {
        "export.common",
        "export.common.packages",
        "export.common.quiet_import",
        "export.serving",
        "export.serving.session",
    }
    tops = {name.partition(".")[0] for name in loaded}
    others = {"keras", "keras_transformer", "trainers", "tensorflow_text"}
    assert tops.isdisjoint(others)


def test_rows_of_alignments_sum_to_1_and_tokens_spell_the_text(ask):
    answer = ask("align", text=TEXTS).arrays
    names = ("source_tokens", "target_tokens")
    rows = zip(*(read(answer[name]) for name in names), answer["alignment"])
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
        if number < 9:
            texts = TEXTS[number], answer["translation"][number].decode()
            for text, tokens in zip(texts, (source, target)):
                spelled = "".join(tokens).removesuffix("</s>").replace("▁", " ")
                assert spelled.split() == text.split()


def test_score_of_long_translations(ask, truncating_translator):
    longest = LIMIT + tiny.CONFIG["max_extra_tokens"]
    given = ["g.", "g " * (longest - 1), "g " * longest, "ba bi " * 2000]
    answer = ask("score", text=["g."] * 4, translation=given).arrays
    assert answer["truncated"].tolist() == [False, False, True, True]
    expected = truncating_translator.score(["g."] * 4, given)
    np.testing.assert_allclose(answer["score"], expected, rtol=1e-5)
    answer = ask("score", text=["g " * LIMIT], translation=["g."]).arrays
    assert answer["truncated"].tolist() == [True]


def test_tokens_of_a_source_with_a_vocabulary_of_its_own():
    """Ids that the target lacks are known; those that neither has are not."""
    model = tiny.model(source_vocabulary_size=230)
    tokenizer = Tokenizer(made_up_text.vocabulary())
    served = ServedTranslator(model, tokenizer, tiny.MAX_SOURCE_TOKENS)
    known, unknown, beyond = (
        served.tokens(np.array([[number, 3]], np.int32))["scores"].numpy()
        for number in (229, UNKNOWN_ID, 230)
    )
    np.testing.assert_array_equal(beyond, unknown)
    assert np.abs(known - unknown).max() > 1e-3


def test_lengths_are_those_of_both_vocabularies():
    source = Tokenizer(odd_vocabularies.proto("char"))
    target = Tokenizer(made_up_text.vocabulary())
    served = ServedTranslator(
        tiny.model(source_vocabulary_size=source.vocabulary_size),
        TokenizerPair(source, target),
        tiny.MAX_SOURCE_TOKENS,
    )
    texts = [*TEXTS[:-1], "ba bi " * 40]
    found, limits = served.lengths(texts), served.limits()
    longest = limits["max_source_tokens"] + limits["max_extra_tokens"]
    for name, tokenizer, limit in (
        ("", source, tiny.MAX_SOURCE_TOKENS),
        ("translation_", target, longest),
    ):
        expected = np.array([*map(len, tokenizer.encode(texts))])
        np.testing.assert_array_equal(found[f"{name}length"], expected)
        truncated = expected > limit
        np.testing.assert_array_equal(found[f"{name}truncated"], truncated)
        assert truncated.any() and not truncated.all()
    assert not np.array_equal(found["length"], found["translation_length"])


def test_tokens_are_truncated_and_unknown_ids_answered(ask):
    odd = [[-5, 10**6, 3, 0], [0, 0, 0, 0], [0, 7, 0, 3], [9, 9, 9, 9]]
    answer = ask("tokens", ids=np.array(odd, np.int32)).arrays
    assert not answer["ids"][1].any()
    rows = np.zeros((4, LIMIT + 3), np.int32)
    rows[0, :LIMIT] = 9
    rows[1, : LIMIT + 1] = 9
    # Few, but behind the limit.
    rows[2, 0], rows[2, LIMIT + 1] = 9, 3
    answer = ask("tokens", ids=rows).arrays
    assert answer["truncated"].tolist() == [False, True, True, False]
    short = ask("tokens", ids=np.array([[9] * (LIMIT - 1) + [3]], np.int32))
    np.testing.assert_allclose(
        short.arrays["scores"][0], answer["scores"][1], atol=1e-4
    )


TERMS = [("ka", "do ri|do riba"), ("ba", "mu"), (TEXTS[0].split()[0], "bàdo")]


def test_terms_are_in_translations_of_texts_that_have_them(
    ask, truncating_translator
):
    terms, texts = Terms(TERMS), TEXTS[:9] + TEXTS[10:]
    # The same of each text: the graph finds those that it has.
    answer = ask(
        "translate_with_terms",
        text=texts,
        source_terms=[["", *(source for source, _ in TERMS)]] * len(texts),
        target_terms=[["ka", *(target for _, target in TERMS)]] * len(texts),
    )
    expected = truncating_translator.translate(texts, terms=terms)
    found = answer.texts("translation")
    assert found == [each.text for each in expected]
    np.testing.assert_allclose(
        answer.arrays["score"], [each.score for each in expected], atol=1e-4
    )
    assert (
        sum(
            each.text != plain.text
            for each, plain in zip(
                expected, truncating_translator.translate(texts)
            )
        )
        >= 2
    )
    (alone,) = ask(
        "translate_with_terms",
        text=texts[:1],
        source_terms=[[TERMS[2][0]]],
        target_terms=[[TERMS[2][1]]],
    ).texts("translation")
    assert "bàdo" in alone


def test_terms_that_cannot_be_spelled_harm_no_other(ask):
    texts = ["ba ka.", "ba ka.", "", "\xff"]
    answer = ask(
        "translate_with_terms",
        text=texts,
        source_terms=[["ba", ""], ["ba", "ka"], ["ba", ""], ["", "x"]],
        target_terms=[["mu", "ŵ"], ["mu", "ŵ"], ["mu", ""], ["", ""]],
    )
    first, second, *_ = answer.texts("translation")
    assert "mu" in first
    assert second == ""
    assert answer.arrays["score"][1] == -1e9
    assert answer.arrays["score"][2] == 0
    for source, target in (([["a"]], [["b"]] * 4), ([["a"]] * 4, [[]] * 4)):
        with pytest.raises(Refused):
            ask(
                "translate_with_terms",
                text=texts,
                source_terms=source,
                target_terms=target,
            )


def test_empty_batches_have_empty_answers(ask):
    for signature in ("serving_default", "n_best", "align", "lengths"):
        answer = ask(signature, text=[]).arrays
        assert {len(array) for array in answer.values()} == {0}
    assert len(ask("score", text=[], translation=[]).arrays["score"]) == 0
    none = np.zeros((0, 0), object)
    answer = ask(
        "translate_with_terms", text=[], source_terms=none, target_terms=none
    )
    assert len(answer.arrays["score"]) == 0
    for shape in ((0, 5), (0, 0), (2, 0)):
        ids = np.zeros(shape, np.int32)
        assert len(ask("tokens", ids=ids).arrays["ids"]) == shape[0]


@pytest.mark.parametrize("signature", ["serving_default", "n_best", "align"])
def test_an_answer_does_not_depend_on_its_batch(ask, signature):
    together = ask(signature, text=TEXTS).arrays
    for number in (0, 4, 9):
        alone = ask(signature, text=[TEXTS[number]]).arrays
        for name, array in alone.items():
            # Other texts may have more tokens.
            size = tuple(slice(size) for size in array.shape[1:])
            part = together[name][(number, *size)]
            array = array[0]
            if together[name].dtype == object:
                assert np.array_equal(array, part)
            else:
                np.testing.assert_allclose(array, part, atol=1e-4)
