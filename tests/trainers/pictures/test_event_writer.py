"""Events for TensorBoard, and a disk that takes no more of them."""

import re

import pytest
import tensorflow as tf

from export.common.errors import InputError
from tests.trainers import event_files
from trainers.pictures.summaries import EventWriter


def test_events_are_on_disk_when_their_block_ends(tmp_path):
    writer = EventWriter(tmp_path, "run")
    for step in (3, 40):
        with writer.at(step):
            tf.summary.scalar("figure", step / 2)
        found = event_files.scalars(tmp_path / "run")
        assert found["figure"][-1] == (step, step / 2)
    assert found == {"figure": [(3, 1.5), (40, 20.0)]}


def test_where_nothing_more_can_be_written_one_line_says_so(tmp_path, no_room):
    writer = EventWriter(tmp_path, "run")
    with (
        pytest.raises(InputError) as caught,
        writer.at(1),
    ):
        tf.summary.text("text", "a" * 100_000)
        tf.summary.scalar("figure", 1.0)
    assert re.fullmatch(
        rf"Cannot write {tmp_path}: {tmp_path}/run/events\S+; File too large\. "
        r"Make room, then run the same command again\.",
        str(caught.value),
    )
