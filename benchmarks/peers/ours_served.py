"""This project's SavedModel, run like TensorFlow Serving, without XLA."""

import os

from export.serving.session import ServerSession

# Lets TensorFlow keep weights reordered for its products and the first number
# of rows; correct only if weights never change.
_FROZEN = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"


class Served:
    """ServerSession, optionally with constant weights."""

    def __init__(self, job, frozen=False):
        if frozen:
            os.environ[_FROZEN] = "1"
        self._session = ServerSession(job.prepared)
        self.note = (
            "exported SavedModel in ServerSession: plain graph, float32; "
            f"{' '.join(job.flags)}" + f"; {_FROZEN}=1" * frozen
        )

    def translate(self, batch):
        answer = self._session.run(
            "serving_default", {"text": [text.encode() for text in batch.texts]}
        )
        return [
            (text.decode("utf-8"), float(score))
            for text, score in zip(answer["translation"], answer["score"])
        ]
