"""CTranslate2 with the same weights."""

import ctranslate2

from benchmarks.decode_text import Pieces

_DEVICES = {"cpu": "cpu", "gpu": "cuda"}


class CTranslate2:
    """ctranslate2.Translator, one batch a call.

    Args:
        job: DecodeJob.
    """

    def __init__(self, job):
        self._pieces = Pieces(job.model)
        self._config = job.config
        self._translator = ctranslate2.Translator(
            job.prepared,
            device=_DEVICES[job.device],
            compute_type=_compute_type(job),
            inter_threads=1,
            intra_threads=job.cores,
        )
        self.note = (
            f"CTranslate2 {ctranslate2.__version__}, "
            f"{self._translator.compute_type}; a sentence ends with its "
            "K-th finished hypothesis"
        )

    def translate(self, batch):
        """Returns text and score of each sentence."""
        pieces = self._pieces.pieces(batch.texts)
        results = self._translator.translate_batch(
            pieces,
            beam_size=self._config["beam_size"],
            length_penalty=self._config["alpha"],
            # An empty translation is one too.
            min_decoding_length=0,
            max_decoding_length=max(map(len, pieces))
            + self._config["max_output_extra"],
            return_scores=True,
        )
        texts = self._pieces.text(result.hypotheses[0] for result in results)
        return [
            (text, result.scores[0]) for text, result in zip(texts, results)
        ]


def _compute_type(job):
    """A folder's own type, unless bfloat16 is asked of a float32 one."""
    if job.precision == "bfloat16" and job.prepared.endswith("float32"):
        return "bfloat16"
    return "default"


make = CTranslate2
