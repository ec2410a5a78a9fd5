"""This project's SavedModel, run as TensorFlow Serving does: no XLA."""

from export.server_session import ServerSession


class Served:
    """ServerSession.

    Args:
        job: DecodeJob.
    """

    note = "exported SavedModel in ServerSession: plain graph, float32"

    def __init__(self, job):
        self._session = ServerSession(job.prepared)

    def translate(self, batch):
        """Returns text and score of each sentence."""
        answer = self._session.run(
            "serving_default", {"text": [text.encode() for text in batch.texts]}
        )
        return [
            (text.decode("utf-8"), float(score))
            for text, score in zip(answer["translation"], answer["score"])
        ]


make = Served
