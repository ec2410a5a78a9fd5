"""A trained translator as a KerasHub task.

`task` is the `Seq2SeqLM`, over `backbone` and `preprocessor`. It generates by
`search`, our beam search, or `sampling`, by KerasHub's samplers. No other
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
