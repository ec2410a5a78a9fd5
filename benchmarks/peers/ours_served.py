"""This project's SavedModel, run as TensorFlow Serving does: no XLA."""

import os

from export.serving.session import ServerSession

# TensorFlow then keeps weights re-ordered for its products, for the number
# of rows it met first; only right where weights never change.
_FROZEN = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"


class Served:
    """ServerSession; a server may be told that weights never change."""

    def __init__(self, job, frozen=False):
        if frozen:
            os.environ[_FROZEN] = "1"
        self._session = ServerSession(job.prepared)
        self.note = (
            "exported SavedModel in ServerSession: plain graph, float32; "
            f"{' '.join(job.flags)}" + f"; {_FROZEN}=1" * frozen
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
