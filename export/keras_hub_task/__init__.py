"""KerasHub: a trained translator as the task that KerasHub's users know.

`task` is its `Seq2SeqLM`, over `backbone`, `preprocessor` and `tokenizer`;
`search` is our own beam search as its sampler; `presets` turns a model
directory into a preset and back. A model directory or a preset comes in, and
Keras models come out. This room imports translators and the model directory,
and it alone imports keras_hub; it takes seconds to load.
"""

from export.keras_hub_task.backbone import TransformerBackbone
from export.keras_hub_task.preprocessor import TransformerSeq2SeqLMPreprocessor
from export.keras_hub_task.search import TranslationSearch
from export.keras_hub_task.task import TransformerSeq2SeqLM
from export.keras_hub_task.tokenizer import TransformerTokenizer

__all__ = [
    "TransformerBackbone",
    "TransformerSeq2SeqLM",
    "TransformerSeq2SeqLMPreprocessor",
    "TransformerTokenizer",
    "TranslationSearch",
]
