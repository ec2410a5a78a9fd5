"""Sampling from a Transformer: ids in, ids out."""

import dataclasses

from keras import ops

from keras_transformer.sampling import SamplingRules, sample
from keras_transformer.special_ids import NEVER_SAID
from keras_transformer.translate_ids import decoder_of, output_limits


def sample_ids(model, source, max_length, seeds, rules=None, max_lengths=None):
    """Draws translations of a batch.

    Args:
        model: Transformer or Ensemble.
        source: int32 [B, S], each sentence ending with the end id, then
            padding.
        max_length: T, room for output tokens: a number or int32 scalar.
        seeds: int32 [B]; a sentence's samples depend on its own alone.
        rules: SamplingRules; by default one sample of the model's own
            distribution.
        max_lengths: int32 [B], of each sentence, the end id counted; by
            default its length without its end id + `config.max_output_extra`.

    Returns:
        Samples: tokens [B, N, T] and log_probs [B, N].
    """
    rules = rules or SamplingRules()
    rules = dataclasses.replace(rules, never=NEVER_SAID + rules.never)
    decoder = decoder_of(model, rules.samples)
    if max_lengths is None:
        max_lengths = output_limits(source, model.config.max_output_extra)
    return sample(
        decoder.step,
        decoder.start(source, max_length),
        ops.minimum(max_lengths, max_length),
        max_length,
        seeds,
        rules,
    )
