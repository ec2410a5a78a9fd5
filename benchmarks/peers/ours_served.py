"""This project's SavedModel, run as TensorFlow Serving does: no XLA."""

import os

from export.server_runtime.session import ServerSession

# TensorFlow then keeps weights re-ordered for its products, for the number
# of rows it met first; only right where weights never change.
_FROZEN = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"


class Served:
    """ServerSession.

    Args:
        job: DecodeJob.
        note: what is special.
    """

    def __init__(self, job, note):
        self._session = ServerSession(job.prepared)
        self.note = (
            "exported SavedModel in ServerSession: plain graph, float32; "
            + note
        )

    def translate(self, batch):
        """Returns text and score of each sentence."""
        answer = self._session.run(
            "serving_default", {"text": [text.encode() for text in batch.texts]}
        )
        return [
            (text.decode("utf-8"), float(score))
            for text, score in zip(answer["translation"], answer["score"])
        ]


def certain(job):
    """As it is exported by default."""
    return Served(job, "a sentence stops when its result is certain")


def finished(job):
    """Exported with --stop=finished."""
    return Served(job, "exported with --stop=finished")


def frozen(job):
    """The same in a server that is told that weights stay."""
    os.environ[_FROZEN] = "1"
    return Served(job, f"exported with --stop=finished; {_FROZEN}=1")
