"""Beam search as a KerasHub sampler."""

import keras
import keras_hub
from keras import ops

import keras_transformer as kt
from export.keras_hub_task.backbone import mask_ids
from keras_transformer.config import BEGIN_ID, SEARCH_FIELDS
from keras_transformer.decoding.translate import output_limits


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

    def __init__(self, **kwargs):
        self.settings = {name: kwargs.pop(name, None) for name in SEARCH_FIELDS}
        super().__init__(**kwargs)

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {**super().get_config(), **self.settings}

    def __call__(self, *args, **kwargs):
        """Raises ValueError: KerasHub does not pass the model to samplers."""
        raise ValueError("TranslationSearch is for TransformerSeq2SeqLM alone.")

    def resolve_config(self, model):
        """Returns the model's TransformerConfig with this search's settings."""
        return model.config.with_search(**self.settings)

    def search(self, model, inputs):
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
