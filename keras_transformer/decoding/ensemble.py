"""Several models that decode together."""

import dataclasses
import math

from keras import ops

from keras_transformer.decoding.beam_decoder import BeamDecoder
from keras_transformer.layers.cache import Cache

MEANS = ("log_probabilities", "probabilities")


class Ensemble:
    """Models of one vocabulary, asked at each step and averaged.

    It takes a Transformer's place in `translate_ids`, `sample_ids`, `score_ids`
    and `align_ids`.

    Args:
        models: list of Transformer; the configuration of the first decides
            beam, penalty and limits.
        mean: of what: "log_probabilities" (the geometric mean of the
            distributions, normalised) or "probabilities".

    Raises:
        ValueError: there is no model, there is no such mean, or
            vocabularies differ in size.
    """

    def __init__(self, models, mean="log_probabilities"):
        if not models:
            raise ValueError("An ensemble needs at least one model.")
        if mean not in MEANS:
            raise ValueError(f"mean must be {' or '.join(MEANS)}, not {mean}.")
        sizes = {model.config.vocabulary_size for model in models}
        if len(sizes) > 1:
            raise ValueError(
                "The models of an ensemble must have one vocabulary, not "
                f"several of {', '.join(map(str, sorted(sizes)))} pieces."
            )
        self.models = models
        self.mean = mean
        self.config = _config_of([model.config for model in models])

    def __call__(self, inputs):
        """Returns mean log-probabilities [B, T, V] in the place of logits."""
        each = [ops.log_softmax(model(inputs)) for model in self.models]
        return averaged(ops.stack(each), self.mean)

    def encode(self, source):
        """Returns a tuple of each model's encoder output."""
        return tuple(model.encode(source) for model in self.models)

    def beam_decoder(self, beam_size, cache=Cache):
        """Returns what decodes `beam_size` beams of each sentence.

        Args:
            beam_size: K.
            cache: Cache, or a subclass of it.
        """
        return EnsembleDecoder(
            [BeamDecoder(model, beam_size, cache) for model in self.models],
            self.mean,
        )


class EnsembleDecoder:
    """The same methods as BeamDecoder, of several.

    Args:
        decoders: list of BeamDecoder.
        mean: one of `MEANS`.
    """

    def __init__(self, decoders, mean):
        self._decoders = decoders
        self._mean = mean

    def start(self, source, room, memory=None):
        """Returns a tuple of the decoders' states."""
        memories = memory or (None,) * len(self._decoders)
        return tuple(
            decoder.start(source, room, each)
            for decoder, each in zip(self._decoders, memories)
        )

    def step(self, tokens, parents, index, states):
        """Returns the mean log-probabilities and the states."""
        return self.attending_step(tokens, parents, index, states)[:2]

    def attending_step(self, tokens, parents, index, states):
        """The same, and what `alignment_of` takes, of each model."""
        results = [
            decoder.attending_step(tokens, parents, index, state)
            for decoder, state in zip(self._decoders, states)
        ]
        logits, states, weights = zip(*results)
        each = ops.stack([ops.log_softmax(one) for one in logits])
        return averaged(each, self._mean), states, weights

    def grow(self, states, room):
        """Returns the states with room for more steps."""
        return tuple(
            decoder.grow(state, room)
            for decoder, state in zip(self._decoders, states)
        )


def averaged(log_probs, mean):
    """Averages the log-probabilities [M, ..., V] of M models.

    Args:
        log_probs: of each model.
        mean: one of `MEANS`; that of log-probabilities is not normalised.

    Returns:
        [..., V].
    """
    if mean == "log_probabilities":
        # Whoever takes logits normalises them.
        return ops.mean(log_probs, axis=0)
    return ops.logsumexp(log_probs, axis=0) - math.log(log_probs.shape[0])


def _config_of(configs):
    """The first's; with learned positions, as many as the least model has."""
    learned = [each for each in configs if each.positions == "learned"]
    if not learned:
        return configs[0]
    least = min(each.max_positions for each in learned)
    return dataclasses.replace(
        configs[0], positions="learned", max_positions=least
    )
