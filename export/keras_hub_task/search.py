"""Beam search as a KerasHub sampler, and its batches."""

import math
import typing
from collections.abc import Callable, Mapping, Sequence

import keras
import keras_hub
import numpy as np
from keras import ops

import keras_transformer as kt
from export.keras_hub_task.backbone import mask_ids
from export.translators.batches import BATCH_TOKENS, truncation_limit
from export.translators.model_backend import ModelBackend
from export.translators.translation import Sentence, Translation
from keras_transformer.config import BEGIN_ID, PAD_ID, SEARCH_FIELDS
from keras_transformer.decoding.translate import output_capacity, output_limits
from keras_transformer.types import Tensor, TensorLike, TransformerLike

if typing.TYPE_CHECKING:
    from export.keras_hub_task.preprocessor import TransformerTokenizer

# Source lengths are padded to multiples of this, to compile few shapes.
_LENGTH_STEP = 16


@keras.saving.register_keras_serializable("keras_transformer")
class TranslationSearch(keras_hub.samplers.Sampler):
    """Beam search with a length penalty (section 6.1 of the paper).

    Gives the translations of `export.translate`; KerasHub's "beam" sampler has
    no length penalty and drops finished hypotheses. The arguments are those of
    `TransformerConfig.with_search` and of the base class. It is a Sampler for
    `compile` and for serialization; TransformerSeq2SeqLM does not call it but
    runs `search`, which needs the model.

    Examples:
        >>> task.compile(sampler=TranslationSearch(beam_size=8))
    """

    def __init__(self, **kwargs: typing.Any):
        self.settings = {name: kwargs.pop(name, None) for name in SEARCH_FIELDS}
        super().__init__(**kwargs)

    def get_config(self) -> dict[str, typing.Any]:
        """Returns the arguments of the constructor."""
        return {**super().get_config(), **self.settings}

    def __call__(
        self, *args: typing.Any, **kwargs: typing.Any
    ) -> typing.NoReturn:
        """Raises ValueError: KerasHub does not pass the model to samplers."""
        raise ValueError("TranslationSearch is for TransformerSeq2SeqLM alone.")

    def resolve_config(self, model: TransformerLike) -> kt.TransformerConfig:
        """Returns the model's TransformerConfig with this search's settings."""
        return model.config.with_search(**self.settings)

    def search(
        self, model: TransformerLike, inputs: Mapping[str, TensorLike]
    ) -> Tensor:
        """Returns int32 [B, T]: the begin id, the best translation, padding.

        XLA can compile it. `inputs` are a TransformerBackbone's; the decoder's
        are the begin id, the prefix of the translation, and padding. `model` is
        a Transformer or a TargetLanguageModel.
        """
        config = self.resolve_config(model)
        source = mask_ids(inputs, "encoder")
        prompt = mask_ids(inputs, "decoder")
        capacity = ops.shape(prompt)[1] - 1
        limits = output_limits(source, config.max_extra_tokens)
        output = kt.translate_ids(
            model,
            source,
            capacity,
            kt.Constraints(limits, prefix=prompt[:, 1:]),
            kt.BeamSearchConfig.from_config(
                config, num_given_tokens=model.num_given_tokens, min_length=1
            ),
        )
        begin = ops.full_like(prompt[:, :1], BEGIN_ID)
        return ops.concatenate([begin, output.tokens[:, 0]], axis=1)


class FixedShapeBackend(ModelBackend):
    """Runs the generate function of a task on batches of sentences.

    `generate_function` is `task.make_generate_function()`, `tokenizer` that of
    its preprocessor; `config` includes the settings of the search.
    `max_output_tokens` limits translations, the end included; None is no limit.
    """

    num_threads = 1

    def __init__(
        self,
        generate_function: Callable[[dict[str, np.ndarray]], dict[str, Tensor]],
        tokenizer: "TransformerTokenizer",
        config: kt.TransformerConfig,
        max_output_tokens: int | None,
    ):
        super().__init__(tokenizer, config)
        self._generate_function = generate_function
        self._max_output_tokens = max_output_tokens

    def search(
        self, sentences: Sequence[Sentence], n: int, align: bool
    ) -> list[list[Translation]]:
        """See the base class; `n` is 1, and no words are aligned."""
        del n, align
        start = 1 + self.tokenizer.num_given_tokens
        source, target = self._pad(sentences, start)
        inputs = {}
        for side, ids in ("encoder", source), ("decoder", target):
            inputs[f"{side}_token_ids"] = ids
            inputs[f"{side}_padding_mask"] = (ids != PAD_ID).astype("int32")
        outputs = self._generate_function(inputs)
        ids = ops.convert_to_numpy(outputs["decoder_token_ids"])
        ids = ids[: len(sentences), start:]
        texts = self.tokenizer.target.decode(ids)
        # The generate function returns no scores.
        return [
            [Translation(text, math.nan)] if row.any() else []
            for text, row in zip(texts, ids)
        ]

    def _pad(self, sentences, start):
        """Returns source and target ids, int32, with rows of padding.

        Targets have the begin id, given tokens and prefix, and from `start` on
        space for the translation.
        """
        longest = max(sentence.length for sentence in sentences)
        width = -(-longest // _LENGTH_STEP) * _LENGTH_STEP
        width = truncation_limit(self._config, width)
        rows = max(BATCH_TOKENS // width, len(sentences))
        source = np.zeros((rows, width), np.int32)
        max_tokens = output_capacity(source, self._config)
        if self._max_output_tokens:
            max_tokens = min(max_tokens, self._max_output_tokens)
        target = np.zeros((rows, start + max_tokens), np.int32)
        target[: len(sentences), 0] = BEGIN_ID
        for row, sentence in enumerate(sentences):
            given, ids = np.split(sentence.ids, [start - 1])
            source[row, : len(ids)] = ids
            prefix = [*given, *sentence.prefix[:max_tokens]]
            target[row, 1 : 1 + len(prefix)] = prefix
        return source, target
