"""Writes TensorBoard's event files, without TensorFlow."""

import contextlib
import io
import os
import pathlib
import time
from collections.abc import Mapping

import numpy as np
from PIL import Image
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.image import metadata as image_metadata
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util import tensor_util

from export.common.errors import InputError


class EventWriter:
    """Writes values of training steps to a run in a `log_dir`.

    Makes TensorBoard drop what the run has after step `first`, from which a
    training resumes. Raises InputError if the system refuses to write.
    """

    def __init__(self, log_dir: pathlib.Path, run: str, first: int = 0):
        self._log_dir = log_dir
        # A new file for each process and time, as TensorBoard expects.
        name = f"events.out.tfevents.{time.time_ns():020}.{os.getpid()}"
        self._path = log_dir / run / name
        with self._explain_errors():
            self._path.parent.mkdir(parents=True, exist_ok=True)
        restart = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._write(
            [
                event_pb2.Event(file_version="brain.Event:2"),
                event_pb2.Event(step=first + 1, session_log=restart),
            ]
        )

    def write(
        self,
        step: int,
        scalars: Mapping[str, float] | tuple[()] = (),
        texts: Mapping[str, list[str]] | tuple[()] = (),
        images: Mapping[str, list[Image.Image]] | tuple[()] = (),
    ) -> None:
        """Writes values of a step, by tag.

        Texts are Markdown, and the images of a list have equal sizes.
        """
        summaries = [
            scalar_pb(tag, each) for tag, each in dict(scalars).items()
        ]
        summaries += [text_pb(tag, each) for tag, each in dict(texts).items()]
        summaries += [
            _image_pb(tag, each) for tag, each in dict(images).items()
        ]
        self._write(
            [event_pb2.Event(step=step, summary=each) for each in summaries]
        )

    def _write(self, events):
        with self._explain_errors(), self._path.open("ab") as file:
            for event in events:
                event.wall_time = time.time()
                RecordWriter(file).write(event.SerializeToString())

    @contextlib.contextmanager
    def _explain_errors(self):
        try:
            yield
        except OSError as error:
            raise InputError(
                f"Cannot write {self._log_dir}: {error.strerror}. Make room, "
                "then run the same command again."
            ) from error


def _image_pb(tag, images):
    """Returns a Summary of images, as `tf.summary.image` writes it."""
    contents = [b"%d" % each for each in images[0].size]
    for image in images:
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        contents.append(buffer.getvalue())
    summary = summary_pb2.Summary()
    summary.value.add(
        tag=tag,
        metadata=image_metadata.create_summary_metadata(None, None),
        tensor=tensor_util.make_tensor_proto(np.array(contents, object)),
    )
    return summary
