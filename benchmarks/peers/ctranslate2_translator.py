"""CTranslate2 with the same weights."""

import ctranslate2

from benchmarks.decoding_job import SentencePieces

_DEVICES = {"cpu": "cpu", "gpu": "cuda"}


class CTranslate2:
    """ctranslate2.Translator, with its own threads for parallel batches."""

    def __init__(self, job, parallel_batches=1):
        self._pieces = SentencePieces(job.model)
        self._config = job.config
        self._translator = ctranslate2.Translator(
            job.prepared,
            device=_DEVICES[job.device],
            compute_type=_compute_type(job),
            inter_threads=parallel_batches,
            intra_threads=max(job.cores // parallel_batches, 1),
        )
        self.note = (
            f"CTranslate2 {ctranslate2.__version__}, "
            f"{self._translator.compute_type}; a sentence ends with its "
            "K-th finished hypothesis"
        )
        if parallel_batches > 1:
            self.note += f"; {parallel_batches} batches in parallel"
            self.translate_all = self._translate_all

    def translate(self, batch):
        return self._translate(batch.texts)

    def _translate_all(self, batches):
        texts = [text for batch in batches for text in batch.texts]
        return self._translate(texts, max_batch_size=len(batches[0].texts))

    def _translate(self, texts, **batching):
        pieces = self._pieces.pieces(texts)
        results = self._translator.translate_batch(
            pieces,
            beam_size=self._config["beam_size"],
            length_penalty=self._config["alpha"],
            # An empty translation is allowed, too.
            min_decoding_length=0,
            max_decoding_length=max(map(len, pieces))
            + self._config["max_extra_tokens"],
            return_scores=True,
            **batching,
        )
        texts = self._pieces.text(result.hypotheses[0] for result in results)
        return [
            (text, result.scores[0]) for text, result in zip(texts, results)
        ]


def _compute_type(job):
    """bfloat16 replaces only float32; an int8 folder keeps its type."""
    if job.precision == "bfloat16" and job.prepared.endswith("float32"):
        return "bfloat16"
    return "default"
