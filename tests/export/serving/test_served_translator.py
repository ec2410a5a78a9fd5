"""The export's answers, from a process that knows nothing but the server."""

import numpy as np
import pytest

from tests import made_up_text
from tests.export import tiny
from tests.export.server import Refused

TEXTS = made_up_text.sentences()
LONG = "ba bi " * 500


@pytest.fixture(scope="module")
def expected(translator):
    """What our own Translator says, cutting sources as the export does."""

    def translated(texts):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                translator, "max_source_tokens", tiny.MAX_SOURCE_TOKENS
            )
            return translator.translate(texts)

    return translated


@pytest.fixture
def ask(server, exported):
    return lambda texts: server.run(exported, text=texts)


def check(answer, expected):
    assert answer.arrays.keys() == {"translation", "score", "truncated"}
    assert answer.arrays["score"].dtype == np.float32
    assert answer.arrays["translation"].shape == (len(expected),)
    assert answer.texts("translation") == [t.text for t in expected]
    np.testing.assert_allclose(
        answer.arrays["score"], [t.score for t in expected], atol=1e-4
    )


@pytest.mark.parametrize("blank", ["", "   ", "\t\n", "\u3000", "\u200b"])
def test_blank_text_gives_blank_text_and_0(ask, expected, blank):
    for texts in ([blank], [blank] * 3, [TEXTS[0], blank, TEXTS[1]]):
        answer = ask(texts)
        check(answer, expected(texts))
        place = texts.index(blank)
        assert answer.texts("translation")[place] == ""
        assert answer.arrays["score"][place] == 0.0


def test_a_thousand_words_are_cut_and_harm_no_other(ask, expected):
    texts = [TEXTS[0], LONG, TEXTS[1]]
    check(ask(texts), expected(texts))
    # What lies behind the cut does not count.
    assert ask([LONG]).texts("translation") == ask([LONG + "ka."]).texts(
        "translation"
    )


@pytest.mark.parametrize("more", [-2, -1, 0, 1, 2])
def test_sources_about_as_long_as_the_cut(ask, expected, translator, more):
    length = tiny.MAX_SOURCE_TOKENS + more
    text = "g " * (length - 1)
    (ids,) = translator.tokenizer.encode([text])
    assert len(ids) == length
    check(ask([text]), expected([text]))


@pytest.mark.parametrize(
    "text", [b"\xff", b"ba \xc3", b"\xed\xa0\x80 ba.", b"\xf8\x88\x80\x80\x80"]
)
def test_bytes_that_are_not_utf8_are_answered(ask, expected, text):
    readable = text.decode("utf-8", "replace")
    answer = ask([TEXTS[0], text])
    check(ask([TEXTS[0], readable]), expected([TEXTS[0], readable]))
    assert answer.texts("translation")[0] == expected(TEXTS[:1])[0].text
    assert np.isfinite(answer.arrays["score"]).all()


def test_broken_bytes_count_as_the_replacement_character(ask, expected):
    check(ask([b"ba \xff."]), expected(["ba \ufffd."]))


def test_any_characters_are_answered(ask, expected):
    texts = [
        "\u6f22\u5b57.",
        "\U0001f600",
        "e\u0301 \ufb01",
        "ba\x00bi",
        "\ufeff",
    ]
    check(ask(texts), expected(texts))


def test_an_answer_does_not_depend_on_its_batch(ask):
    together = ask([*TEXTS[:9], "", LONG])
    for number in (0, 4, 8):
        alone = ask([TEXTS[number]])
        for name, array in alone.arrays.items():
            if name == "score":
                np.testing.assert_allclose(
                    array[0], together.arrays[name][number], atol=1e-4
                )
            else:
                assert array[0] == together.arrays[name][number]


def test_what_a_client_gets_wrong_is_refused_and_harms_nothing(
    server, exported, ask, expected
):
    for signature, inputs in (
        ("nothing", {"text": ["ba."]}),
        ("serving_default", {"texts": ["ba."]}),
        ("serving_default", {}),
        ("serving_default", {"text": [["ba."]]}),
    ):
        with pytest.raises(Refused):
            server.run(exported, signature, **inputs)
    check(ask(TEXTS[:2]), expected(TEXTS[:2]))


def test_the_serving_process_knows_neither_keras_nor_us(server, exported):
    server.run(exported, text=[])
    loaded = server.modules()
    ours = {name for name in loaded if name.startswith("export.")}
    assert ours == {
        "export.common",
        "export.common.start_up",
        "export.server_runtime",
        "export.server_runtime.session",
    }
    tops = {name.partition(".")[0] for name in loaded}
    others = {"keras", "keras_transformer", "trainers", "tensorflow_text"}
    assert tops.isdisjoint(others)
