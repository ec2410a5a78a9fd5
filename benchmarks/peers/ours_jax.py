"""This project's training step and beam search on JAX, under jit."""

import jax
import keras
import numpy as np

import keras_transformer as kt
from benchmarks.decoding_job import SentencePieces, load_model
from benchmarks.training_job import pack
from export.translators.batches import pad_ids
from keras_transformer.config import END_ID
from trainers.training.jax_training_model import TrainingTransformer

# Source lengths are padded to multiples, each compiled once. Padding costs
# little time on a GPU.
_LENGTH_MULTIPLE = {"cpu": 8, "gpu": 64}


class Step:
    """The training step of trainers.wmt."""

    framework = "jax"

    def __init__(self, job, packed=False):
        keras.utils.set_random_seed(1)
        model = TrainingTransformer(job.config, dtype=job.precision)
        model.compile_for_training()
        self._run_step = model.make_train_function()
        self._batches = [
            jax.device_put(pack(batch) if packed else batch.pad_ids)
            for batch in job.batches
        ]
        self.parameters = model.count_params()
        self.note = (
            f"Keras {keras.__version__}, JAX {jax.__version__}, jitted step"
        )

    def run(self, number):
        logs = self._run_step(iter([self._batches[number]]))
        return float(logs["loss"])


class Search:
    """Beam search, compiled for each padded shape."""

    framework = "jax"

    def __init__(self, job):
        # Like the other systems, with bfloat16 weights if requested.
        self._model = load_model(job, dtype=job.precision)
        self._pieces = SentencePieces(job.model)
        self._multiple = _LENGTH_MULTIPLE[job.device]
        self._weights = [weight.value for weight in self._model.weights]
        self._search = jax.jit(self._translate_ids)
        self.note = (
            f"kt.translate_ids under jit, Keras {keras.__version__}, JAX "
            f"{jax.__version__}, {job.precision}"
        )

    def translate(self, batch):
        width = -(-max(batch.source_lengths) // self._multiple) * self._multiple
        config = self._model.config
        if config.positions == "learned":
            width = min(width, config.max_positions)
        source = pad_ids(self._pieces.ids(batch.texts), width)
        tokens, scores = self._search(self._weights, source)
        texts = self._pieces.text(
            [token for token in row if token > END_ID]
            for row in np.asarray(tokens).tolist()
        )
        return list(zip(texts, np.asarray(scores).tolist()))

    def _translate_ids(self, weights, source):
        with keras.StatelessScope(zip(self._model.weights, weights)):
            result = kt.translate_ids(self._model, source)
        return result.tokens[:, 0], result.scores[:, 0]
