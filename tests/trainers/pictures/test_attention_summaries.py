"""Attention for TensorBoard while a model is trained."""

import html
import io
import math
import re
import resource
import warnings

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from tensorboard.backend.event_processing import event_accumulator

from export.common.errors import InputError
from export.tokenizers.tokenizer import Tokenizer
from tests import made_up_text
from tests.trainers import event_files
from tests.trainers.helpers import (
    batches_of,
    largest_difference,
    made_up_pairs,
    minute_model,
    token_pairs,
    weights_of,
)
from trainers.batches import input_pipeline
from trainers.pictures.attention_pictures import draw_layer
from trainers.pictures.event_writer import EventWriter
from trainers.pictures.summaries import (
    AttentionSummaries,
    choose_attention_sentences,
    two_column_table,
)
from trainers.training.callbacks import StepCounter

SIZE = 200
PAIRS = made_up_pairs(30, seed=4, vocabulary=SIZE)
KINDS = ("encoder", "decoder", "cross")


class _Recorder:
    """Reads attention with an AttentionReader; records it and the weights."""

    def __init__(self, reader, model):
        self.reader = reader
        self.model = model
        self.maps = []

    def read(self, sources):
        self.weights = weights_of(self.model)
        self.maps.append(self.reader.read(sources))
        return self.maps[-1]


def _train(folder, summaries=True):
    """Trains from step 2 to 5; returns the model and the _Recorder."""
    model = minute_model(1, vocabulary_size=SIZE, dropout=0.3, beam_size=2)
    model.compile_for_training(ema=0.5)
    counter = StepCounter(2, 5)
    callbacks, recorder = [counter], None
    if summaries:
        tokenizer = Tokenizer(made_up_text.vocabulary())
        sentences = made_up_text.sentences()[:2]
        watching = AttentionSummaries(
            counter, model, tokenizer, sentences, sentences, folder, 2
        )
        watching._reader = recorder = _Recorder(watching._reader, model)
        callbacks.append(watching)
    model.fit(
        input_pipeline.training_data(
            model.distribute_strategy, batches_of(PAIRS, shapes=1), 2
        ),
        steps_per_epoch=3,
        callbacks=callbacks,
    )
    model.use_average()
    return model, recorder


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """(folder, model, recorded maps of steps 4 and 5)."""
    folder = tmp_path_factory.mktemp("logs")
    model, recorder = _train(folder)
    assert largest_difference(recorder.weights, weights_of(model)) == 0
    return folder, model, recorder.maps


@pytest.fixture(scope="module")
def events(logs):
    accumulator = event_accumulator.EventAccumulator(
        str(logs[0] / "attention"), {event_accumulator.TENSORS: 0}
    )
    return accumulator.Reload()


def test_training_is_the_same_to_the_bit(logs, tmp_path):
    watched = logs[1]
    plain, _ = _train(tmp_path, summaries=False)
    for one, other in zip(weights_of(watched), weights_of(plain), strict=True):
        assert np.array_equal(one, other)
    for one, other in zip(
        watched.optimizer.variables, plain.optimizer.variables, strict=True
    ):
        assert np.array_equal(one.numpy(), other.numpy())


def test_every_second_step_and_the_last_are_written(events, logs):
    expected = {"translations"}
    for kind in KINDS:
        expected |= {
            f"attention_{kind}/layer_1",
            f"attention_entropy/{kind}/layer_1/head_1",
            f"attention_entropy/{kind}/layer_1/head_2",
        }
    assert set(events.Tags()["tensors"]) == expected
    for tag in expected:
        assert [event.step for event in events.Tensors(tag)] == [4, 5]
    # The weights of the step, not of when the graph was made.
    first, last = (maps[0].encoder for maps in logs[2])
    assert not np.array_equal(first, last)


def _last(events, tag):
    return tf.make_ndarray(events.Tensors(tag)[-1].tensor_proto)


def test_entropies_are_means_over_the_rows_of_all_sentences(events, logs):
    for kind in KINDS:
        for head in range(2):
            rows = [
                -sum(p * math.log(p) for p in row.tolist() if p > 0)
                for maps in logs[2][-1]
                for row in getattr(maps, kind)[0, head]
            ]
            tag = f"attention_entropy/{kind}/layer_1/head_{head + 1}"
            assert _last(events, tag) == pytest.approx(
                sum(rows) / len(rows), abs=1e-5
            )


def test_pictures_show_the_weights(events, logs):
    """A sample for each sentence, with white below the lower ones."""
    for kind in KINDS:
        drawn = [draw_layer(maps, kind, 1) for maps in logs[2][-1]]
        width, height, *files = _last(events, f"attention_{kind}/layer_1")
        assert int(height) == max(picture.height for picture in drawn)
        for file, picture in zip(files, drawn, strict=True):
            shown = Image.open(io.BytesIO(file))
            assert shown.size == (int(width), int(height))
            pixels, end = np.asarray(shown), picture.height
            assert np.array_equal(pixels[:end], np.asarray(picture))
            assert (pixels[end:] == 255).all()


def test_steps_after_a_resume_replace_those_before(tmp_path):
    for first, last in ((0, 7), (0, 5), (3, 9)):
        writer = EventWriter(tmp_path, "run", first)
        for step in range(first + 1, last + 1):
            writer.write(step, {"value": 10 * first + step})
    expected = [*range(1, 4), *range(34, 40)]
    values = event_files.scalars(tmp_path / "run")["value"]
    assert values == list(enumerate(expected, 1))
    # Also before the first value of the run.
    EventWriter(tmp_path, "run", 2)
    values = event_files.scalars(tmp_path / "run")["value"]
    assert values == [(1, 1), (2, 2)]


def test_a_full_disk_is_an_input_error(tmp_path):
    """No file may grow beyond 64 KiB: what fits stays."""
    writer = EventWriter(tmp_path, "run")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, limits[1]))
    try:
        with pytest.raises(InputError, match=f"Cannot write {tmp_path}: "):
            for step in range(2):
                writer.write(step, {"small": 1.0}, {"much": ["x" * 40_000]})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    (file,) = (tmp_path / "run").iterdir()
    assert file.stat().st_size == 65536


def _pairs(*lengths):
    return token_pairs(*([[4] * (n - 1) + [3] for n in lengths],) * 2)


@pytest.mark.parametrize(
    ("lengths", "count", "expected"),
    [
        ((1, 6, 30, 7, 8, 40, 9), 2, [1, 4]),
        # Too few of a good length: the nearest, too.
        ((1, 6, 30, 7, 14, 40), 3, [1, 3, 4]),
        ((1, 2), 5, [1]),
    ],
)
def test_sentences_that_can_be_drawn_are_chosen(lengths, count, expected):
    assert (
        choose_attention_sentences(_pairs(*lengths), count).tolist() == expected
    )


def test_any_text_is_shown_as_it_is():
    with warnings.catch_warnings():
        # Of a library inside TensorBoard, when it is imported.
        warnings.simplefilter("ignore", DeprecationWarning)
        from tensorboard.plugin_util import markdown_to_safe_html

    text = "<b>a|b</b> *c* `d` [e](f) & \\| # 1. _g_ 😀 שלום"
    table = two_column_table([("source", text), ("its tokens", "▁a </s>")])
    cells = re.findall(r"<t[hd]>(.*?)</t[hd]>", markdown_to_safe_html(table))
    # No mark-up came of any of it, and nothing got lost.
    assert not any("<" in cell for cell in cells)
    expected = ["source", text, "its tokens", "▁a </s>"]
    assert [html.unescape(cell) for cell in cells] == expected
