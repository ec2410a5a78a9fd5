"""CTranslate2 with the same weights."""

import ctranslate2

from benchmarks.decoding.job import SentencePieces
from export.translators.batches import AT_ONCE

_DEVICES = {"cpu": "cpu", "gpu": "cuda"}


class CTranslate2:
    """ctranslate2.Translator, one batch a call.

    Args:
        job: DecodeJob.
        at_once: batches that it translates at the same time; they share the
            threads.
    """

    def __init__(self, job, at_once=1):
        self._pieces = SentencePieces(job.model)
        self._config = job.config
        self._translator = ctranslate2.Translator(
            job.prepared,
            device=_DEVICES[job.device],
            compute_type=_compute_type(job),
            inter_threads=at_once,
            intra_threads=max(job.cores // at_once, 1),
        )
        self.note = (
            f"CTranslate2 {ctranslate2.__version__}, "
            f"{self._translator.compute_type}; a sentence ends with its "
            "K-th finished hypothesis"
        )

    def translate(self, batch):
        """Returns text and score of each sentence."""
        return self._translate(batch.texts)

    def _translate(self, texts, **batching):
        pieces = self._pieces.pieces(texts)
        results = self._translator.translate_batch(
            pieces,
            beam_size=self._config["beam_size"],
            length_penalty=self._config["alpha"],
            # An empty translation is one too.
            min_decoding_length=0,
            max_decoding_length=max(map(len, pieces))
            + self._config["max_output_extra"],
            return_scores=True,
            **batching,
        )
        texts = self._pieces.text(result.hypotheses[0] for result in results)
        return [
            (text, result.scores[0]) for text, result in zip(texts, results)
        ]


class SideBySide(CTranslate2):
    """Several batches at once, by CTranslate2's own workers.

    Args:
        job: DecodeJob.
    """

    def __init__(self, job):
        super().__init__(job, AT_ONCE)
        self.note += f"; {AT_ONCE} batches at once"

    def translate_all(self, batches):
        """Returns text and score of each sentence."""
        texts = [text for batch in batches for text in batch.texts]
        return self._translate(texts, max_batch_size=len(batches[0].texts))


def _compute_type(job):
    """A folder's own type, unless bfloat16 is asked of a float32 one."""
    if job.precision == "bfloat16" and job.prepared.endswith("float32"):
        return "bfloat16"
    return "default"
