"""This project's search on JAX: `kt.translate_ids` under jit."""

import jax
import keras
import numpy as np

import keras_transformer as kt
from benchmarks.decoding.models import load
from benchmarks.decoding.text import Pieces
from benchmarks.peers.ours_jax import peak_gpu_bytes
from export.translators.text_ids import padded
from keras_transformer.special_ids import END_ID

# Source lengths are padded to multiples of it; each is compiled once.
_STEP = 8


class OursOnJax:
    """The search, compiled for each padded shape.

    Args:
        job: DecodeJob.
    """

    def __init__(self, job):
        # Weights in bfloat16 too: those of the peers are.
        self._model = load(job.prepared, dtype=job.precision)
        self._pieces = Pieces(job.model)
        self._weights = [weight.value for weight in self._model.weights]
        self._search = jax.jit(self._translate_ids)
        self.note = (
            f"kt.translate_ids under jit, Keras {keras.__version__}, JAX "
            f"{jax.__version__}, {job.precision}"
        )

    def translate(self, batch):
        """Returns text and score of each sentence."""
        source = self._source(batch)
        tokens, scores = self._search(self._weights, source)
        rows = np.asarray(tokens).tolist()
        texts = self._pieces.text(
            [number for number in row if number > END_ID] for row in rows
        )
        return list(zip(texts, np.asarray(scores).tolist()))

    def _source(self, batch):
        width = -(-max(batch.source_lengths) // _STEP) * _STEP
        config = self._model.config
        if config.positions == "learned":
            width = min(width, config.max_positions)
        return padded(self._pieces.ids(batch.texts), width)

    def _translate_ids(self, weights, source):
        with keras.StatelessScope(zip(self._model.weights, weights)):
            room = kt.output_room(source, self._model.config)
            result = kt.translate_ids(self._model, source, room)
        return result.tokens[:, 0], result.scores[:, 0]

    def peak_gpu_bytes(self):
        """Returns the most memory that arrays took on the GPU."""
        return peak_gpu_bytes()


make = OursOnJax
