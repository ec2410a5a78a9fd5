"""Our messages of SentencePiece are those that its package generated."""

import pytest

from export.tokenizers import sentencepiece_model
from tests import made_up_text

MESSAGES = "ModelProto", "NormalizerSpec", "TrainerSpec"


@pytest.fixture(scope="module")
def generated():
    try:
        from sentencepiece import sentencepiece_model_pb2
    # Of protobuf, where it is too old.
    except Exception as error:
        pytest.skip(str(error))
    return sentencepiece_model_pb2


def describe(message):
    return {
        (each.name, each.number, each.type)
        # An empty text is the default anyway, and the surface is not used.
        + ((str(each.default_value),) if each.name != "unk_surface" else ())
        for each in message.DESCRIPTOR.fields
    }


@pytest.mark.parametrize("name", MESSAGES)
def test_fields_are_the_same(generated, name):
    ours, others = (
        getattr(each, name) for each in (sentencepiece_model, generated)
    )
    assert describe(ours) == describe(others)
    for name, number in generated.TrainerSpec.ModelType.items():
        assert getattr(sentencepiece_model.TrainerSpec, name) == number
    for name, number in generated.ModelProto.SentencePiece.Type.items():
        piece = sentencepiece_model.ModelProto.SentencePiece
        assert getattr(piece, name) == number


def test_a_model_is_written_byte_for_byte(generated):
    content = made_up_text.vocabulary()
    models = [
        module.ModelProto.FromString(content)
        for module in (sentencepiece_model, generated)
    ]
    for model in models:
        model.pieces.add(piece="new", score=-1.5, type=4)
        model.trainer_spec.vocab_size += 1
    assert models[0].SerializeToString() == models[1].SerializeToString()
