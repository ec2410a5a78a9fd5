"""A trained translator as a task of KerasHub.

`task` is its `Seq2SeqLM`, over `backbone` and `preprocessor`; `search` is the
beam search as its sampler, and `presets` turns a model directory into a preset
and back. They import translators, tokenizers and the model directory; no other
package imports keras_hub, which takes seconds to load.
"""

from export.keras_hub_task.backbone import TransformerBackbone
from export.keras_hub_task.preprocessor import (
    TransformerSeq2SeqLMPreprocessor,
    TransformerTokenizer,
)
from export.keras_hub_task.search import TranslationSearch
from export.keras_hub_task.task import TransformerSeq2SeqLM

__all__ = [
    "TransformerBackbone",
    "TransformerSeq2SeqLM",
    "TransformerSeq2SeqLMPreprocessor",
    "TransformerTokenizer",
    "TranslationSearch",
]
