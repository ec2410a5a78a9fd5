"""Ensembles: models that decode together."""

import math

from keras import ops

from keras_transformer.config import validate_choice
from keras_transformer.layers.attention import KVCache

MEANS = ("log_probabilities", "probabilities")


class Ensemble:
    """Models with the same vocabularies, averaged at each step.

    Replaces a Transformer in `translate_ids`, `sample_ids`, `score_ids` and
    `force_align`. Vocabularies of different sizes raise ValueError.

    Args:
        models: list of Transformer; the first one's configuration sets beam,
            penalty and limits, up to the fewest learned positions of all.
        mean: "log_probabilities" (normalized geometric mean of the
            distributions) or "probabilities".
    """

    def __init__(self, models, mean="log_probabilities"):
        if not models:
            raise ValueError("An ensemble needs at least one model.")
        validate_choice("mean", mean, MEANS)
        for side in ("encoder_vocabulary_size", "vocabulary_size"):
            sizes = {getattr(model.config, side) for model in models}
            if len(sizes) > 1:
                raise ValueError(
                    "Expected models with one vocabulary, got sizes of "
                    f"{', '.join(map(str, sorted(sizes)))} tokens."
                )
        self.models = models
        self.mean = mean
        self.config = models[0].config
        tables = [
            model.config.max_positions
            for model in models
            if model.config.positions == "learned"
        ]
        if tables:
            self.config = self.config.replace(
                positions="learned", max_positions=min(tables)
            )

    def __call__(self, inputs):
        """Returns logits [B, T, V]; their softmax is the mean distribution."""
        each = [ops.log_softmax(model(inputs)) for model in self.models]
        return average_log_probs(ops.stack(each), self.mean)

    def attention(self, inputs):
        """Returns `Transformer.attention` with one list per model."""
        each = [model.attention(inputs) for model in self.models]
        return {kind: [one[kind] for one in each] for kind in each[0]}

    def alignment(self, scores, layer=None):
        """Returns the models' mean alignment; see `Transformer.alignment`."""
        each = [
            model.alignment(model_scores, layer)
            for model, model_scores in zip(self.models, scores)
        ]
        return ops.mean(ops.stack(each), axis=0)

    def encode(self, source):
        """Returns a tuple with each model's encoder output."""
        return tuple(model.encode(source) for model in self.models)

    def beam_decoder(self, beam_size, cache=KVCache):
        """Returns the EnsembleDecoder; see `Transformer.beam_decoder`."""
        decoders = [
            model.beam_decoder(beam_size, cache) for model in self.models
        ]
        return EnsembleDecoder(decoders, self.mean)


class EnsembleDecoder:
    """Several BeamDecoders with the interface of one."""

    def __init__(self, decoders, mean):
        self.beam_size = decoders[0].beam_size
        self.cache = decoders[0].cache
        self._mean = mean
        self._decoders = decoders

    def start(self, source, capacity, memory=None):
        """Returns a tuple of the decoders' states."""
        memories = memory or (None,) * len(self._decoders)
        return tuple(
            decoder.start(source, capacity, each)
            for decoder, each in zip(self._decoders, memories)
        )

    def step(
        self, tokens, parents, index, states, return_attention_scores=False
    ):
        """Returns mean log-probabilities as logits; see `BeamDecoder.step`."""
        results = [
            decoder.step(
                *(tokens, parents, index, state),
                return_attention_scores=return_attention_scores,
            )
            for decoder, state in zip(self._decoders, states)
        ]
        logits, *others = zip(*results)
        log_probs = ops.stack([ops.log_softmax(each) for each in logits])
        return average_log_probs(log_probs, self._mean), *others

    def extend_cache(self, states, capacity):
        """Returns the states with capacity for more steps."""
        return tuple(
            decoder.extend_cache(state, capacity)
            for decoder, state in zip(self._decoders, states)
        )


def average_log_probs(log_probs, mean):
    """Averages the log-probabilities [M, ..., V] of M models: [..., V]."""
    if mean == "log_probabilities":
        # Not normalized, since the search normalizes logits.
        return ops.mean(log_probs, axis=0)
    return ops.logsumexp(log_probs, axis=0) - math.log(log_probs.shape[0])
