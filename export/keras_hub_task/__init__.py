"""A trained translator as a KerasHub task.

`task` is the `Seq2SeqLM`, over `backbone` and `preprocessor`; `generation` has
the beam search as a sampler. No other package imports keras_hub, which takes
seconds to load.
"""

from export.keras_hub_task.backbone import TransformerBackbone
from export.keras_hub_task.generation import TranslationSearch
from export.keras_hub_task.preprocessor import (
    TransformerSeq2SeqLMPreprocessor,
    TransformerTokenizer,
)
from export.keras_hub_task.task import TransformerSeq2SeqLM

__all__ = [
    "TransformerBackbone",
    "TransformerSeq2SeqLM",
    "TransformerSeq2SeqLMPreprocessor",
    "TransformerTokenizer",
    "TranslationSearch",
]
