"""Ensembles: models that decode together."""

import math
import typing
from collections.abc import Sequence

import keras
from keras import ops

from keras_transformer.config import validate_choice
from keras_transformer.decoding.beam_decoder import BeamDecoder, DecoderState
from keras_transformer.layers.attention import KVCache
from keras_transformer.types import Tensor, TensorLike, TransformerLike

MEANS = ("log_probabilities", "probabilities")


class Ensemble:
    """Models with the same vocabularies, averaged at each step.

    Takes the place of a Transformer in `translate_ids`, `sample_ids`,
    `score_ids` and `force_align`. Different vocabulary sizes raise ValueError.

    Args:
        models: list of Transformer. The configuration is that of the first,
            with the smallest number of learned positions.
        mean: "log_probabilities" (normalized geometric mean of the
            distributions) or "probabilities".
    """

    def __init__(
        self, models: Sequence[TransformerLike], mean: str = "log_probabilities"
    ):
        if not models:
            raise ValueError("An ensemble needs at least one model.")
        validate_choice("mean", mean, MEANS)
        for name in ("encoder_vocabulary_size", "vocabulary_size"):
            sizes = {getattr(model.config, name) for model in models}
            if len(sizes) > 1:
                raise ValueError(
                    f"Models have different vocabulary sizes: {sorted(sizes)}."
                )
        self.models = models
        self.mean = mean
        self.config = models[0].config
        max_positions = [
            model.config.max_positions
            for model in models
            if model.config.positions == "learned"
        ]
        if max_positions:
            self.config = self.config.replace(
                positions="learned",
                sinusoid_rates="paper",
                max_positions=min(max_positions),
            )

    @property
    def num_given_tokens(self) -> int:
        """See `BeamSearchConfig`."""
        return self.models[0].num_given_tokens

    @property
    def weights(self) -> list[keras.Variable]:
        """The variables of all models, a list."""
        return [weight for model in self.models for weight in model.weights]

    def __call__(self, inputs: dict[str, TensorLike]) -> Tensor:
        """Returns logits of the mean distribution: [B, T, V]."""
        return _mean_logits([model(inputs) for model in self.models], self.mean)

    def attention(
        self, inputs: dict[str, TensorLike]
    ) -> dict[str, list[list[Tensor]]]:
        """Returns a dict as `Transformer.attention`, of lists over models."""
        scores = [model.attention(inputs) for model in self.models]
        return {
            name: [model_scores[name] for model_scores in scores]
            for name in scores[0]
        }

    def alignment(
        self, weights: Sequence[Sequence[Tensor]], layer: int | None = None
    ) -> Tensor:
        """Returns the models' mean alignment; see `Transformer.alignment`."""
        alignments = [
            model.alignment(model_weights, layer)
            for model, model_weights in zip(self.models, weights)
        ]
        return ops.mean(ops.stack(alignments), axis=0)

    def encode(self, source: TensorLike) -> tuple[Tensor, ...]:
        """Returns a tuple with each model's encoder output."""
        return tuple(model.encode(source) for model in self.models)

    def beam_decoder(
        self, beam_size: int, cache: type[KVCache] = KVCache
    ) -> "EnsembleDecoder":
        """Returns the EnsembleDecoder; see `Transformer.beam_decoder`."""
        decoders = [
            model.beam_decoder(beam_size, cache) for model in self.models
        ]
        return EnsembleDecoder(decoders, self.mean)


class EnsembleDecoder:
    """Several BeamDecoders with the interface of one."""

    def __init__(self, decoders: Sequence[BeamDecoder], mean: str):
        self.beam_size = decoders[0].beam_size
        self.cache_class = decoders[0].cache_class
        self._mean = mean
        self._decoders = decoders

    def start(
        self,
        source: TensorLike,
        capacity: int | Tensor,
        memory: Sequence[Tensor] | None = None,
    ) -> tuple[DecoderState, ...]:
        """Returns a tuple of the decoders' states."""
        memories = memory or [None] * len(self._decoders)
        return tuple(
            decoder.start(source, capacity, model_memory)
            for decoder, model_memory in zip(self._decoders, memories)
        )

    def step(
        self,
        tokens: Tensor,
        parents: Tensor,
        index: Tensor,
        states: Sequence[DecoderState],
        return_attention_scores: bool = False,
    ) -> tuple[typing.Any, ...]:
        """Returns logits of the mean distribution; see `BeamDecoder.step`."""
        results = [
            decoder.step(tokens, parents, index, state, return_attention_scores)
            for decoder, state in zip(self._decoders, states)
        ]
        # Of each a tuple of the models'; `scores` is empty unless requested.
        logits, states, *scores = zip(*results)
        return _mean_logits(logits, self._mean), states, *scores

    def extend_cache(
        self, states: Sequence[DecoderState], capacity: int | Tensor
    ) -> tuple[DecoderState, ...]:
        """Returns the states with capacity for more steps."""
        return tuple(
            decoder.extend_cache(state, capacity)
            for decoder, state in zip(self._decoders, states)
        )


def _mean_logits(logits, mean):
    """Returns logits of the mean distribution for each model's [..., V]."""
    log_probs = ops.stack([ops.log_softmax(each) for each in logits])
    if mean == "log_probabilities":
        # Not normalized, since the search normalizes logits.
        return ops.mean(log_probs, axis=0)
    return ops.logsumexp(log_probs, axis=0) - math.log(log_probs.shape[0])
