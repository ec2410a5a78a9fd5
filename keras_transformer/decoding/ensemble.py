"""Several models that decode together."""

import dataclasses
import math

from keras import ops

from keras_transformer.layers.attention import KVCache

MEANS = ("log_probabilities", "probabilities")


class Ensemble:
    """Models of the same vocabularies, asked at each step and averaged.

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
        for side in ("source_pieces", "vocabulary_size"):
            sizes = {getattr(model.config, side) for model in models}
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

    def attention(self, inputs):
        """Returns what the models attend to: as `Transformer.attention`.

        Each kind is a list of what the models return.
        """
        each = [model.attention(inputs) for model in self.models]
        return {kind: [one[kind] for one in each] for kind in each[0]}

    def alignment(self, weights, layer=None):
        """Returns the mean of the models' alignments: float32 [B, T, S].

        Args:
            weights: cross-attention of each model.
            layer: as for `Transformer.alignment`.
        """
        each = [
            model.alignment(its_weights, layer)
            for model, its_weights in zip(self.models, weights)
        ]
        return ops.mean(ops.stack(each), axis=0)

    def encode(self, source):
        """Returns a tuple of each model's encoder output."""
        return tuple(model.encode(source) for model in self.models)

    def beam_decoder(self, beam_size, cache=KVCache):
        """Returns what decodes `beam_size` beams of each sentence.

        Args:
            beam_size: K.
            cache: KVCache, or a subclass of it.
        """
        decoders = [
            model.beam_decoder(beam_size, cache) for model in self.models
        ]
        return EnsembleDecoder(self, decoders)


class EnsembleDecoder:
    """The same methods as BeamDecoder, of several.

    Args:
        ensemble: Ensemble.
        decoders: list of BeamDecoder, one of each model.

    Attributes:
        beam_size: of the decoders.
        cache: of the decoders.
    """

    def __init__(self, ensemble, decoders):
        self.beam_size = decoders[0].beam_size
        self.cache = decoders[0].cache
        self.alignment = ensemble.alignment
        self._mean = ensemble.mean
        self._decoders = decoders

    def start(self, source, capacity, memory=None):
        """Returns a tuple of the decoders' states."""
        memories = memory or (None,) * len(self._decoders)
        return tuple(
            decoder.start(source, capacity, each)
            for decoder, each in zip(self._decoders, memories)
        )

    def step(self, tokens, parents, index, states):
        """Returns the mean log-probabilities and the states."""
        return self.attending_step(tokens, parents, index, states)[:2]

    def attending_step(self, tokens, parents, index, states):
        """The same, and the cross-attention of each model."""
        results = [
            decoder.attending_step(tokens, parents, index, state)
            for decoder, state in zip(self._decoders, states)
        ]
        logits, states, weights = zip(*results)
        each = ops.stack([ops.log_softmax(one) for one in logits])
        return averaged(each, self._mean), states, weights

    def remains(self, states):
        """Returns what is kept of the states after a search: nothing."""
        del states
        return ()

    def grow(self, states, capacity):
        """Returns the states with capacity for more steps."""
        return tuple(
            decoder.grow(state, capacity)
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
