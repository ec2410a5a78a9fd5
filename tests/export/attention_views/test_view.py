"""What --kind, --layer, --heads, --unit and --word choose."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from export.attention_views.view import AttentionView, chosen_view
from export.attention_views.words import AttendedSentence
from export.common.errors import InputError
from tests.export.attention_views import attended

TEXT = "The old, old car stopped."
FIRST = AttentionView("encoder", 1, (0, 1), word=2)


@pytest.fixture(scope="module")
def sentence():
    return AttendedSentence(attended.maps(TEXT, "Das Auto hielt."))


@pytest.mark.parametrize(
    "asked, expected",
    [
        ({}, FIRST),
        ({"layer": 3}, AttentionView("encoder", 2, (0, 1), word=2)),
        ({"heads": ["4", "2"]}, AttentionView("encoder", 1, (1, 3), word=2)),
        ({"heads": ["all"]}, AttentionView("encoder", 1, (0, 1, 2, 3), word=2)),
        ({"kind": "cross"}, AttentionView("cross", 1, (0, 1))),
        ({"unit": "pieces"}, AttentionView("encoder", 1, (0, 1), "pieces")),
        ({"word": "old"}, AttentionView("encoder", 1, (0, 1), word=2)),
        ({"word": "old,"}, AttentionView("encoder", 1, (0, 1), word=1)),
        ({"word": "stopped"}, AttentionView("encoder", 1, (0, 1), word=4)),
        ({"word": "#1"}, AttentionView("encoder", 1, (0, 1), word=0)),
        (
            {"kind": "cross", "unit": "pieces", "word": "Auto"},
            AttentionView("cross", 1, (0, 1), "pieces", word=1),
        ),
    ],
)
def test_what_is_asked_for_changes(sentence, asked, expected):
    assert chosen_view(FIRST, sentence, **asked) == expected


def test_another_kind_may_have_other_layers():
    sentence = AttendedSentence(
        attended.maps(TEXT, "Das Auto hielt.", layers=6, decoder_layers=2)
    )
    assert sentence.layers == {"encoder": 6, "decoder": 2, "cross": 2}
    view = AttentionView("encoder", 4, (0,))
    for asked, kind, layer in (
        ({"unit": "pieces"}, "encoder", 4),
        ({"kind": "cross"}, "cross", 1),
        ({"kind": "decoder", "layer": 1}, "decoder", 0),
    ):
        found = chosen_view(view, sentence, **asked)
        assert (found.kind, found.layer) == (kind, layer)
    found = chosen_view(found, sentence, kind="encoder")
    # Five sixths up.
    assert (found.kind, found.layer) == ("encoder", 4)
    with pytest.raises(InputError, match="no layer 3; .* from 1 to 2"):
        chosen_view(view, sentence, kind="cross", layer=3)


@pytest.mark.parametrize(
    "asked, says",
    [
        ({"layer": 4}, "There is no layer 4; they are numbered from 1 to 3."),
        ({"layer": 0}, "There is no layer 0;"),
        ({"heads": ["2", "5"]}, "There is no head 5;"),
        ({"heads": ["two"]}, "There is no head two;"),
        ({"word": "#7"}, "There is no word 7; they are numbered from 1 to 6."),
        ({"word": "car!"}, "none of the words that look; take one of these"),
    ],
)
def test_what_is_not_there_is_refused(sentence, asked, says):
    with pytest.raises(InputError, match=says):
        chosen_view(FIRST, sentence, **asked)


@given(st.lists(st.text("#019a²-", min_size=1), min_size=1, max_size=6))
@example(["#metoo", "#2", "#1", "is", "#"])
def test_a_word_of_the_sentence_is_no_number(words):
    sentence = AttendedSentence(attended.maps(" ".join(words), "Ja."))
    for word in [*words, f"#{len(words)}", "#0", "#²"]:
        if word in words:
            expected = words.index(word)
        elif word == f"#{len(words)}":
            expected = len(words) - 1
        else:
            with pytest.raises(InputError):
                chosen_view(FIRST, sentence, word=word)
            continue
        assert chosen_view(FIRST, sentence, word=word).word == expected
