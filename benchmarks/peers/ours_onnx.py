"""This project's ONNX file, in onnxruntime without TensorFlow."""

import pathlib

import onnxruntime

from export.onnx.onnx_session import OnnxSession


class Onnx:
    """OnnxSession with all processors for one run."""

    def __init__(self, job):
        self._session = OnnxSession(pathlib.Path(job.prepared), job.cores)
        self.note = (
            f"exported ONNX file in onnxruntime {onnxruntime.__version__}; "
            f"{' '.join(job.flags)}"
        )

    def translate(self, batch):
        answer = self._session.run("serving_default", {"text": batch.texts})
        return [
            (text.decode("utf-8"), float(score))
            for text, score in zip(answer["translation"], answer["score"])
        ]
