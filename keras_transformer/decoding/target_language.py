"""Decoding with the language of the target as the decoder's first token.

In M2M-100 (Fan et al. 2020, section 2.1) and NLLB-200 the decoder's inputs are
the begin id, the token of the target's language, and the translation. Here the
language is the first id of a source, before what the encoder gets, so that all
functions of ids work, and outputs have the translation only.
"""

import typing

from keras import ops

from keras_transformer.config import BEGIN_ID, PAD_ID
from keras_transformer.decoding.beam_decoder import BeamDecoder
from keras_transformer.decoding.ensemble import Ensemble
from keras_transformer.ids import arange, validate_ids
from keras_transformer.layers.attention import KVCache
from keras_transformer.types import Tensor, TensorLike, TransformerLike


def with_target_language(
    model: TransformerLike,
) -> "TargetLanguageModel | Ensemble":
    """Returns a TargetLanguageModel, or an Ensemble of several."""
    if isinstance(model, Ensemble):
        return Ensemble([*map(with_target_language, model.models)], model.mean)
    return TargetLanguageModel(model)


class TargetLanguageModel:
    """A Transformer whose sources begin with the target's language.

    No token attends to that position. It has the interface of a Transformer
    for decoding: sources and targets are int32 [B, S] and [B, T], and targets
    are without the language.
    """

    # See `BeamSearchConfig`.
    num_given_tokens = 1

    def __init__(self, model: TransformerLike):
        self._model = model
        self.config = model.config
        if model.config.positions == "learned":
            # The language has one of the decoder's.
            self.config = model.config.replace(
                max_positions=model.config.max_positions - 1
            )

    def __getattr__(self, name):
        return getattr(self._model, name)

    def __call__(self, inputs: dict[str, TensorLike]) -> Tensor:
        """Returns the logits after each token of the target: [B, T, V]."""
        return self._model(_shift_language(inputs))[:, 1:]

    def attention(
        self, inputs: dict[str, TensorLike]
    ) -> dict[str, list[Tensor]]:
        """Returns a dict as `Transformer.attention`.

        Of the decoder's keys the first stands for the begin id and language.
        """
        scores = self._model.attention(_shift_language(inputs))
        kinds = scores["encoder"], scores["decoder"], scores["cross"]
        return {
            "encoder": [ops.roll(each, (1, 1), (2, 3)) for each in kinds[0]],
            "decoder": [_join_first_keys(each[:, :, 1:]) for each in kinds[1]],
            "cross": [ops.roll(each[:, :, 1:], 1, 3) for each in kinds[2]],
        }

    def encode(self, source: TensorLike) -> Tensor:
        """Encodes ids [B, S] as float [B, S, D], the first at the end id's."""
        return ops.roll(self._model.encode(_drop_first(source)), 1, axis=1)

    def beam_decoder(
        self,
        beam_size: int,
        cache: type[KVCache] = KVCache,
        output_layer: typing.Any = None,
    ) -> BeamDecoder:
        """Returns a BeamDecoder; see `Transformer.beam_decoder`."""
        return _TargetLanguageDecoder(self, beam_size, cache, output_layer)


class _TargetLanguageDecoder(BeamDecoder):
    """A BeamDecoder whose second input is the first id of each source."""

    def start(self, source, capacity, memory=None):
        state = super().start(source, capacity + 1, memory)
        is_later = arange(ops.shape(source)[1]) > 0
        # Not `source[:, :1]`, of an unknown width if S is unknown.
        language = ops.cast(source[:, 0], "int32")[:, None]
        # On JAX no id is known within the loop.
        size = self._model.config.vocabulary_size
        validate_ids(language, size, "id of a language")
        state = state._replace(
            memory_mask=state.memory_mask & is_later, target_language=language
        )
        begin = ops.full((1, self.beam_size), BEGIN_ID, dtype="int32")
        begin = begin + ops.zeros_like(language)
        index = ops.convert_to_tensor(0, "int32")
        _, state = super().step(begin, ops.zeros_like(begin), index, state)
        return state

    def step(
        self, tokens, parents, index, state, return_attention_scores=False
    ):
        return super().step(
            tokens, parents, index + 1, state, return_attention_scores
        )

    def extend_cache(self, state, capacity):
        return super().extend_cache(state, capacity + 1)

    def _validate_capacity(self, capacity):
        super()._validate_capacity(capacity - 1)

    def _embed(self, ids, positions, parents, state):
        ids = ops.where(positions == 1, state.target_language, ids)
        return super()._embed(ids, positions, parents, state)


def _join_first_keys(scores):
    """Adds the first two columns: [B, H, T, T] of [B, H, T, T + 1]."""
    first = scores[..., :1] + scores[..., 1:2]
    return ops.concatenate([first, scores[..., 2:]], axis=-1)


def _drop_first(source):
    """Returns the ids after the first of each row, then padding: [B, S]."""
    return ops.pad(source[:, 1:], ((0, 0), (0, 1)), constant_values=PAD_ID)


def _shift_language(inputs):
    """Returns inputs of the decoder with the language after the begin id."""
    source, target = inputs["source"], inputs["target"]
    target = ops.concatenate([target[:, :1], source[:, :1], target[:, 1:]], 1)
    return {"source": _drop_first(source), "target": target}
