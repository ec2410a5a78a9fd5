"""Attention for TensorBoard while a model is trained."""

import html
import io
import math
import re
import warnings

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from tensorboard.backend.event_processing import event_accumulator

from export.attention_views.reader import AttentionReader
from export.common.errors import InputError
from export.tokenizers.tokenizer import Tokenizer
from export.translators.translator import Translator
from tests import made_up_text
from tests.trainers.helpers import (
    made_up_pairs,
    minute_model,
    plan_of,
    token_pairs,
    weights_of,
)
from trainers.batches import input_pipeline
from trainers.pictures.attention_pictures import (
    layer_picture,
    overview_picture,
)
from trainers.pictures.summaries import (
    AttentionSummaries,
    choose_sentences,
    markdown_table,
    row_entropies,
)
from trainers.training.callbacks import StepCounter

SIZE = 200
PAIRS = made_up_pairs(30, seed=4, vocabulary=SIZE)
KINDS = ("encoder", "decoder", "cross")


def _train(folder, first, last, model=None, summaries=True):
    """From step to step; returns the model."""
    if model is None:
        model = minute_model(1, vocabulary_size=SIZE, dropout=0.3, beam_size=2)
    counter = StepCounter(first, last)
    callbacks = [counter]
    if summaries:
        tokenizer = Tokenizer(made_up_text.vocabulary())
        sentences = made_up_text.sentences()[:2]
        callbacks.append(
            AttentionSummaries(
                counter, model, tokenizer, sentences, sentences, folder, 2
            )
        )
    model.fit(
        input_pipeline.training_data(
            model.distribute_strategy, PAIRS, plan_of(PAIRS, shapes=1), first
        ),
        steps_per_epoch=last - first,
        callbacks=callbacks,
        shuffle=False,
        verbose=0,
    )
    return model


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """(folder, model) of five steps, and two more of a second run."""
    folder = tmp_path_factory.mktemp("logs")
    model = _train(folder, 0, 5)
    return folder, _train(folder, 5, 7, model)


@pytest.fixture(scope="module")
def events(logs):
    accumulator = event_accumulator.EventAccumulator(
        str(logs[0] / "attention"), {event_accumulator.TENSORS: 0}
    )
    return accumulator.Reload()


@pytest.fixture(scope="module")
def found(logs):
    """AttentionMaps of the sentences, of the last step's weights."""
    tokenizer = Tokenizer(made_up_text.vocabulary())
    reader = AttentionReader(Translator(logs[1], tokenizer))
    return reader.read(made_up_text.sentences()[:2])


def _steps(events, tag):
    return [event.step for event in events.Tensors(tag)]


def test_training_is_the_same_to_the_bit(logs, tmp_path):
    watched = logs[1]
    plain = _train(tmp_path, 0, 5, summaries=False)
    plain = _train(tmp_path, 5, 7, plain, summaries=False)
    assert not list(tmp_path.iterdir())
    for one, other in zip(weights_of(watched), weights_of(plain), strict=True):
        assert np.array_equal(one, other)
    for one, other in zip(
        watched.optimizer.variables, plain.optimizer.variables, strict=True
    ):
        assert np.array_equal(one.numpy(), other.numpy())


def test_everything_is_there_at_every_step(events):
    """Every second step and the last; a second run goes on counting."""
    expected = {"translations"}
    for kind in KINDS:
        expected |= {
            f"attention_{kind}/{name}" for name in ("all_heads", "layer_1")
        }
        expected |= {
            f"attention_entropy/{kind}/layer_1/head_{head}" for head in (1, 2)
        }
    assert set(events.Tags()["tensors"]) == expected
    for tag in expected:
        assert _steps(events, tag) == [2, 4, 5, 6, 7]


def test_it_shows_the_weights_of_the_moment(events):
    values = [
        float(tf.make_ndarray(event.tensor_proto))
        for event in events.Tensors("attention_entropy/encoder/layer_1/head_1")
    ]
    assert len(set(values)) == 5
    # Of all tokens alike, the longest sentence's: the most there can be.
    assert all(0 < value < math.log(30) for value in values)


def test_entropy_of_what_is_known():
    weights = np.zeros((1, 2, 2, 4), np.float32)
    weights[0, 0] = np.eye(4)[:2]
    weights[0, 1, 0] = 0.25
    weights[0, 1, 1] = [0.5, 0.5, 0, 0]
    expected = [[[0.0, 0.0], [math.log(4), math.log(2)]]]
    np.testing.assert_allclose(row_entropies(weights), expected, atol=1e-7)


def _last(events, tag):
    return tf.make_ndarray(events.Tensors(tag)[-1].tensor_proto)


def test_entropies_are_means_over_the_rows_of_all_sentences(events, found):
    for kind in KINDS:
        for head in range(2):
            rows = [
                -sum(p * math.log(p) for p in row.tolist() if p > 0)
                for maps in found
                for row in getattr(maps, kind)[0, head]
            ]
            tag = f"attention_entropy/{kind}/layer_1/head_{head + 1}"
            assert _last(events, tag) == pytest.approx(
                sum(rows) / len(rows), abs=1e-5
            )


def test_pictures_are_of_the_weights_of_the_moment(events, found):
    """A sample for each sentence; white fills up the less high ones."""
    for kind in KINDS:
        for name, drawn in (
            ("layer_1", [layer_picture(maps, kind, 1) for maps in found]),
            ("all_heads", [overview_picture(maps, kind) for maps in found]),
        ):
            width, height, *files = _last(events, f"attention_{kind}/{name}")
            assert len(files) == 2
            for file, picture in zip(files, drawn):
                shown = Image.open(io.BytesIO(file))
                assert shown.size == (int(width), int(height))
                pixels, high = np.asarray(shown), picture.height
                assert np.array_equal(pixels[:high], np.asarray(picture))
                assert (pixels[high:] == 255).all()
            assert int(height) == max(picture.height for picture in drawn)


def test_pictures_that_find_no_room_end_the_training(tmp_path, no_room):
    """Those of step 2 fit, and not those of step 4 as well."""
    with pytest.raises(InputError, match=f"Cannot write {tmp_path}: "):
        _train(tmp_path, 0, 9)
    files = (tmp_path / "attention").iterdir()
    assert [file.stat().st_size for file in files] == [65536]


def _pairs(*lengths):
    return token_pairs(*([[4] * (n - 1) + [3] for n in lengths],) * 2)


@pytest.mark.parametrize(
    ("lengths", "count", "expected"),
    [
        ((1, 6, 30, 7, 8, 40, 9), 2, [1, 4]),
        ((1, 6, 30, 7, 8, 40, 9), 4, [1, 3, 4, 6]),
        # Not enough of a good length: the nearest besides.
        ((1, 6, 30, 7, 14, 40), 3, [1, 3, 4]),
        ((1, 2, 300), 2, [1, 2]),
        ((1, 2), 5, [1]),
        ((1,), 2, []),
    ],
)
def test_sentences_that_can_be_drawn_are_chosen(lengths, count, expected):
    assert choose_sentences(_pairs(*lengths), count).tolist() == expected


def _as_tensorboard_shows(markdown):
    with warnings.catch_warnings():
        # Of a library inside TensorBoard, when it is imported.
        warnings.simplefilter("ignore", DeprecationWarning)
        from tensorboard.plugin_util import markdown_to_safe_html
    return markdown_to_safe_html(markdown)


def test_any_text_is_shown_as_it_is():
    text = "<b>a|b</b> *c* `d` [e](f) & \\| # 1. _g_ 😀 שלום"
    shown = _as_tensorboard_shows(
        markdown_table([("source", text), ("its tokens", "▁a </s>")])
    )
    cells = re.findall(r"<t[hd]>(.*?)</t[hd]>", shown)
    # No mark-up came of any of it, and nothing got lost.
    assert not any("<" in cell for cell in cells)
    expected = ["source", text, "its tokens", "▁a </s>"]
    assert [html.unescape(cell) for cell in cells] == expected
