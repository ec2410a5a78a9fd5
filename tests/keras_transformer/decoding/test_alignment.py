"""Alignments noted during a search, against those of its hypotheses given."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.config import FORBIDDEN_IDS
from keras_transformer.decoding.alignment import AlignmentTrace, TracingDecoder
from keras_transformer.decoding.beam_search import bucketed_beam_search
from keras_transformer.decoding.translate import output_limits
from tests.keras_transformer import helpers
from tests.keras_transformer.decoding.test_translate import (
    ROOM,
    SOURCE,
    model_with,
)

END = 3
BEAMS = 3


def assert_those_of_given_ones(model, source, found, layer=None):
    """`found` is a BeamSearchResult with a Record; all beams are looked at."""
    alignments = helpers.to_numpy(
        kt.gather_alignments(found.state, found.tokens)
    )
    tokens = helpers.to_numpy(found.tokens).astype("int32")
    scores = helpers.to_numpy(found.scores)
    assert alignments.shape == (*tokens.shape, source.shape[1])
    looked_at = 0
    for beam in range(tokens.shape[1]):
        expected = kt.force_align(model, source, tokens[:, beam], layer)
        expected = helpers.to_numpy(expected)
        for row in np.flatnonzero(scores[:, beam] > -1e8):
            length = list(tokens[row, beam]).index(END) + 1
            np.testing.assert_allclose(
                alignments[row, beam, :length],
                expected[row, :length],
                atol=1e-5,
            )
            looked_at += 1
    assert looked_at > len(source)


def searched(model, layer=None, rooms=(ROOM,)):
    decoder = TracingDecoder(model.beam_decoder(BEAMS), ROOM, layer)
    source = ops.convert_to_tensor(SOURCE)
    found = bucketed_beam_search(
        decoder.step,
        decoder.start(source, rooms[0]),
        ops.minimum(output_limits(source, 4), ROOM),
        rooms,
        kt.BeamSearchConfig(BEAMS, never=FORBIDDEN_IDS),
        decoder.grow,
    )
    return found._replace(state=decoder.remains(found.state))


@pytest.mark.parametrize("layer", [None, 1, 2])
def test_every_hypothesis_has_its_own(layer):
    model = model_with()
    assert_those_of_given_ones(model, SOURCE, searched(model, layer), layer)


def test_an_ensemble_has_the_mean():
    models = [
        model_with(),
        model_with(norm="pre", positions="learned", num_decoder_layers=1),
    ]
    ensemble = kt.Ensemble(models)
    assert_those_of_given_ones(ensemble, SOURCE, searched(ensemble))


def test_beams_of_one_token_are_told_apart_by_what_they_continue():
    """Both beams of the last step were given 6: after 4, and after 5."""
    record = AlignmentTrace(
        tokens=ops.convert_to_tensor([[[2, 2], [4, 5], [6, 6]]], "int32"),
        parents=ops.convert_to_tensor([[[0, 0], [0, 0], [0, 1]]], "int32"),
        attention=ops.reshape(ops.arange(6, dtype="float32"), (1, 3, 2)),
    )
    tokens = ops.convert_to_tensor([[[5, 6, END], [4, 6, END]]], "int32")
    found = helpers.to_numpy(kt.gather_alignments(record, tokens))
    np.testing.assert_array_equal(found[0, :, :, 0], [[0, 3, 5], [0, 2, 4]])


def test_the_search_is_the_same():
    model = model_with()
    plain = kt.translate_ids(model, SOURCE, ROOM)
    found = searched(model)
    for name in ("tokens", "scores"):
        np.testing.assert_array_equal(
            helpers.to_numpy(getattr(found, name)),
            helpers.to_numpy(getattr(plain, name)),
        )


def test_refuses_a_layer_that_is_not_there():
    with pytest.raises(ValueError, match="layer must be from 1 to"):
        searched(model_with(), 99)


def test_in_stages():
    model = model_with()
    found = searched(model, rooms=(2, 3, ROOM))
    assert_those_of_given_ones(model, SOURCE, found)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="needs open shapes"
)
def test_in_segments_of_a_graph_of_open_shapes():
    """Sentences leave at different times and take their record along."""
    import tensorflow as tf

    model = model_with()

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def run(source):
        room = tf.maximum(tf.reduce_max(output_limits(source, 20)), 1)
        limits = output_limits(source, 20)
        return kt.translate_ids_and_attend(model, source, room, limits)

    long = np.concatenate([SOURCE, SOURCE[:1] + 1, SOURCE[2:]], axis=0)
    long[3] = [4, 5, 6, 7, END]
    for source in (long, SOURCE[1:2, :2]):
        assert_those_of_given_ones(model, source, run(source))
    for source, steps in ((SOURCE[:0], 1), (SOURCE, 0)):
        found = run(source)
        tokens = found.tokens[:, :, :steps]
        alignments = kt.gather_alignments(found.state, tokens)
        assert alignments.shape == (len(source), BEAMS, steps, 5)
