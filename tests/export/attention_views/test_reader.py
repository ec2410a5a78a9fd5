"""Attention of sentences, against the NumPy float64 reference."""

import numpy as np
import pytest

from export.attention_views.reader import AttentionReader
from export.common.errors import InputError
from export.translators.translator import Translator
from tests.export import tiny
from tests.keras_transformer import helpers, whole_model
from tests.made_up_text import sentences

TEXTS = [*sentences(3, seed=7), "ba"]
KINDS = ("encoder", "decoder", "cross")
END = 3


@pytest.fixture(scope="module")
def reader(translator):
    return AttentionReader(translator)


def _ids(translator, text):
    return translator.tokenizer.encode([text])[0]


def _assert_reference(translator, maps, source, target):
    """`target` is predicted from `[2, *target[:-1]]`."""
    model = translator.model
    expected = whole_model.run_pair(
        model.config,
        helpers.weights_by_name(model),
        source,
        np.array([2, *target[:-1]]),
    )
    for kind in KINDS:
        actual = getattr(maps, kind)
        wanted = np.stack(getattr(expected, kind))
        assert actual.shape == wanted.shape
        assert actual.dtype == np.float32
        assert helpers.relative_error(actual, wanted) <= 1e-4
        np.testing.assert_allclose(actual.sum(axis=-1), 1.0, atol=1e-6)


def test_attention_of_beam_search_equals_reference(translator, reader):
    found = reader.read(TEXTS)
    pieces = translator.tokenizer.ids_to_tokens(np.arange(200, dtype="int32"))
    pieces = pieces.numpy().tolist()
    expected = [each.text for each in translator.translate(TEXTS)]
    assert [maps.translation for maps in found] == expected
    for text, maps in zip(TEXTS, found):
        source = _ids(translator, text)
        # Not of the text, which other pieces could make up as well.
        target = [pieces.index(each.encode()) for each in maps.target_tokens]
        assert target[-1] == END
        _assert_reference(translator, maps, source, target)
        assert maps.source_tokens[-1] == "</s>"
        joined = "".join(maps.source_tokens[:-1]).replace("▁", " ")
        assert joined == f" {text}"
        assert maps.target_inputs == ("<s>", *maps.target_tokens[:-1])


def test_a_given_translation_equals_reference(translator, reader):
    given = [TEXTS[1], TEXTS[2], "ba", TEXTS[0]]
    for maps, text, translation in zip(reader.read(TEXTS, given), TEXTS, given):
        source, target = (
            _ids(translator, each) for each in (text, translation)
        )
        assert maps.translation == translation
        _assert_reference(translator, maps, source, target)


def test_unknown_pieces_and_blank_text(reader):
    (maps,) = reader.read(["ba <b>😀"], ["שלום"])
    for tokens in (maps.source_tokens, maps.target_tokens):
        assert tokens[-2:] == ("<unk>", "</s>")
    for blank in ("", "  \n"):
        with pytest.raises(InputError):
            reader.read(["ba", blank])


def test_long_texts_are_truncated_and_reported(translator):
    model = tiny.model(positions="learned", max_positions=6)
    reader = AttentionReader(Translator.from_model(model, translator.tokenizer))
    short, long = reader.read(["ba", "ba " * 9], ["ba " * 9, "ba"])
    assert (short.source_truncated, short.target_truncated) == (False, True)
    assert (long.source_truncated, long.target_truncated) == (True, False)
    assert len(short.target_tokens) == len(long.source_tokens) == 6
    assert short.target_tokens[-1] == long.source_tokens[-1] == "</s>"
