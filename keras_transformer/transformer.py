"""The Transformer model: Figure 1 of "Attention Is All You Need"."""

import dataclasses
import os
import typing
from collections.abc import Sequence

import keras
from keras import ops

from keras_transformer.config import PAD_ID, TransformerConfig
from keras_transformer.decoding.beam_decoder import BeamDecoder
from keras_transformer.ids import as_ids
from keras_transformer.kernels import Dropout
from keras_transformer.layers.attention import KVCache
from keras_transformer.layers.base import SequenceLayer
from keras_transformer.layers.decoder import Decoder
from keras_transformer.layers.embedding import (
    LearnedPositionEmbedding,
    SharedEmbedding,
    SinusoidalPositionEncoding,
)
from keras_transformer.layers.encoder import Encoder
from keras_transformer.layers.masks import build_attention_masks, padding_mask
from keras_transformer.types import Shape, Tensor, TensorLike

_INPUTS = {"source", "target"}


@keras.saving.register_keras_serializable("keras_transformer")
class Transformer(SequenceLayer, keras.Model):
    """Encoder, decoder, embeddings and the pre-softmax product.

    Letters: B batch, S source length, T target length, D d_model, H heads, V
    target vocabulary. Id 0 is padding. The constructor creates all weights.

    The model takes a dict and returns logits, float32 [B, T, V]; the logits at
    position t predict the token after `target[:, t]`. The dict has

    - `source`: int32 [B, S],
    - `target`: int32 [B, T], the decoder's input: the outputs shifted right,
      with the begin id at position 0,
    - for rows of several packed sentence pairs also `source_segments` and
      `target_segments` (int32, the pair, counted from 1; 0 on padding) and
      `source_positions` and `target_positions` (int32, from 0 in each
      sentence). Segments on only one side raise ValueError.

    Args:
        config: TransformerConfig.
        **kwargs: of `keras.Model`, such as `dtype="mixed_bfloat16"`. Norms,
            softmax, logits and loss stay in float32.

    Examples:
        >>> config = TransformerConfig.preset("base", vocabulary_size=40_960)
        >>> Transformer(config).count_params()
        65110016
    """

    needs_word_positions = False

    num_given_tokens = 0  # See `BeamSearchConfig`.

    def __init__(self, config: TransformerConfig, **kwargs: typing.Any):
        super().__init__(**kwargs)
        if config.uses_word_positions != self.needs_word_positions:
            raise ValueError(
                f"positions={config.positions} is not for "
                f"{type(self).__name__}; positions of words are for "
                "ParserTransformer, all others for Transformer."
            )
        self.config = config
        # Autocast would round ids given as floats.
        self.autocast = False
        share = config.share_embeddings
        self.target_embedding = self._new_embedding(
            "target_embedding",
            config.vocabulary_size,
            config.output_bias and share != "none",
        )
        self.source_embedding = self.output_embedding = self.target_embedding
        if share != "all":
            self.source_embedding = self._new_embedding(
                "source_embedding", config.encoder_vocabulary_size
            )
        if share == "none":
            self.output_embedding = self._new_embedding(
                "output_embedding", config.vocabulary_size, config.output_bias
            )
        self.source_positions = self._new_position_layer("source_positions")
        self.target_positions = self._new_position_layer("target_positions")
        self.embedding_dropout = Dropout(
            config.dropout, dtype=self.dtype_policy, name="embedding_dropout"
        )
        arguments = {
            "intermediate_dim": config.d_ff,
            "num_heads": config.num_heads,
            "key_dim": config.d_k,
            "value_dim": config.d_v,
            "activation": config.activation,
            "dropout": config.dropout,
            "attention_dropout": config.attention_dropout,
            "activation_dropout": config.activation_dropout,
            "layer_norm_epsilon": config.layer_norm_epsilon,
            "normalize_first": config.norm == "pre",
            "attention_window": config.attention_window,
            "use_bias": config.attention_bias,
            "dtype": self.dtype_policy,
        }
        self.encoder = Encoder(config.num_layers, name="encoder", **arguments)
        self.decoder = Decoder(
            config.decoder_layers, name="decoder", **arguments
        )
        self.build()

    def _new_embedding(self, name, vocabulary_size, output_bias=False):
        return SharedEmbedding(
            vocabulary_size,
            self.config.d_model,
            output_bias=output_bias,
            dtype=self.dtype_policy,
            name=name,
        )

    def _new_position_layer(self, name):
        kwargs = {"dtype": self.dtype_policy, "name": name}
        if self.config.positions == "learned":
            return LearnedPositionEmbedding(self.config.max_positions, **kwargs)
        return SinusoidalPositionEncoding(self.config.sinusoid_rates, **kwargs)

    def build(self, input_shape: typing.Any = None) -> None:
        """Creates all weights, independent of the input's shape."""
        if self.built:
            return
        for embedding in (
            self.source_embedding,
            self.target_embedding,
            self.output_embedding,
        ):
            if not embedding.built:
                embedding.build((None, None))
        shape = None, None, self.config.d_model
        self.source_positions.build(shape)
        self.target_positions.build(shape)
        self.embedding_dropout.build(shape)
        self.encoder.build(shape)
        self.decoder.build(shape, shape)
        self.built = True

    def call(
        self, inputs: dict[str, TensorLike], training: bool = False
    ) -> Tensor:
        """Returns logits, float32 [B, T, V]; see the class for the inputs."""
        _, states = self.hidden_states(inputs, training)
        return self.output_embedding.logits(states)

    def hidden_states(
        self,
        inputs: dict[str, TensorLike],
        training: bool = False,
        return_attention_scores: bool = False,
    ) -> tuple[typing.Any, ...]:
        """Returns the outputs of the encoder and the decoder.

        They are float [B, S, D] and float [B, T, D]; `output_embedding` maps
        the latter to logits. With `return_attention_scores` also returns a dict
        as `attention` does, except that rows of padding are not zero.
        """
        if not (isinstance(inputs, dict) and inputs.keys() >= _INPUTS):
            given = sorted(inputs) if isinstance(inputs, dict) else type(inputs)
            raise ValueError(
                "Expected a dict of source and target as inputs, got "
                f"{getattr(given, '__name__', given)}."
            )
        inputs = {name: as_ids(ids) for name, ids in inputs.items()}
        masks = build_attention_masks(inputs)
        source = self.embed_source(
            inputs["source"], inputs.get("source_positions"), training
        )
        memory = self.encoder(
            source,
            attention_mask=masks["source"],
            training=training,
            return_attention_scores=return_attention_scores,
        )
        if return_attention_scores:
            memory, encoder = memory
        target = self._decoder_inputs(inputs, memory, masks["memory"], training)
        states = self.decoder(
            target,
            memory,
            attention_mask=masks["target"],
            memory_mask=masks["memory"],
            training=training,
            return_attention_scores=return_attention_scores,
        )
        if not return_attention_scores:
            return memory, states
        states, decoder, cross = states
        scores = {"encoder": encoder, "decoder": decoder, "cross": cross}
        return memory, states, scores

    def attention(
        self, inputs: dict[str, TensorLike]
    ) -> dict[str, list[Tensor]]:
        """Returns the attention weights of every head, without dropout.

        The result is a dict of lists with one float32 tensor per layer:
        `encoder` [B, H, S, S], and for the decoder `decoder` [B, H, T, T] and
        `cross` [B, H, T, S]. A token's row sums to 1 over the positions that it
        may attend to and is 0 elsewhere; rows of padding are 0.
        """
        *_, scores = self.hidden_states(inputs, return_attention_scores=True)
        for name, weights_of_layers in scores.items():
            ids = as_ids(inputs["source" if name == "encoder" else "target"])
            non_padding = ops.not_equal(ids, PAD_ID)[:, None, :, None]
            scores[name] = [
                weights * ops.cast(non_padding, weights.dtype)
                for weights in weights_of_layers
            ]
        return scores

    def alignment(
        self, weights: Sequence[Tensor], layer: int | None = None
    ) -> Tensor:
        """Returns a layer's mean cross-attention over heads, [B, T, S].

        `weights` are float32 [B, H, T, S] of each decoder layer; `layer` counts
        from 1. The configuration has the number of heads and the default of
        the layer: in models trained here all heads of the second to last, whose
        attention is nearest to human alignments (Garg et al. 2019, section
        5.1).
        """
        count = self.config.decoder_layers
        default, heads = self.config.alignment_attention
        layer = default if layer is None else layer
        if not 1 <= layer <= count:
            raise ValueError(f"layer must be from 1 to {count}, not {layer}.")
        return ops.mean(weights[layer - 1][:, :heads], axis=1)

    def beam_decoder(
        self,
        beam_size: int,
        cache: type[KVCache] = KVCache,
        output_layer: typing.Any = None,
    ) -> BeamDecoder:
        """Returns a BeamDecoder; `cache` is KVCache or a subclass."""
        return BeamDecoder(self, beam_size, cache, output_layer)

    def encode(self, source: TensorLike) -> Tensor:
        """Encodes int32 [B, S] ids as float [B, S, D], without dropout."""
        return self.encoder(
            self.embed_source(source), attention_mask=padding_mask(source)
        )

    def embed_source(
        self,
        ids: TensorLike,
        positions: TensorLike | None = None,
        training: bool = False,
    ) -> Tensor:
        """Embeds int32 [B, S] ids and positions as float [B, S, D]."""
        embedded = self.source_positions(self.source_embedding(ids), positions)
        return self.embedding_dropout(embedded, training=training)

    def embed_target(
        self,
        ids: TensorLike,
        positions: TensorLike | None = None,
        training: bool = False,
    ) -> Tensor:
        """Embeds int32 [B, T] ids and positions as float [B, T, D]."""
        embedded = self.target_positions(self.target_embedding(ids), positions)
        return self.embedding_dropout(embedded, training=training)

    def _decoder_inputs(self, inputs, memory, memory_mask, training=False):
        """Returns the decoder's input, float [B, T, D]."""
        del memory, memory_mask  # Used by subclasses.
        return self.embed_target(
            inputs["target"], inputs.get("target_positions"), training
        )

    def fit(
        self,
        *args: typing.Any,
        class_weight: typing.Any = None,
        **kwargs: typing.Any,
    ) -> keras.callbacks.History:
        """Trains as `keras.Model.fit`; `class_weight` raises ValueError."""
        _refuse_class_weight(class_weight)
        return super().fit(*args, **kwargs)

    def train_on_batch(
        self,
        *args: typing.Any,
        class_weight: typing.Any = None,
        **kwargs: typing.Any,
    ) -> typing.Any:
        """As `keras.Model`'s; `class_weight` raises ValueError."""
        _refuse_class_weight(class_weight)
        return super().train_on_batch(*args, **kwargs)

    def compute_output_shape(self, inputs_shape: dict[str, Shape]) -> Shape:  # type: ignore[override]
        """Returns the shape of the logits."""
        return (*inputs_shape["target"], self.config.vocabulary_size)

    def export(
        self,
        filepath: str | os.PathLike,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: typing.Any = None,
        **kwargs: typing.Any,
    ) -> None:
        """Exports the model as `keras.Model.export`, also before any call.

        The default signature is a dict of `source` and `target`, int32, of any
        batch size and lengths; for packed rows pass another.
        """
        if input_signature is None:
            # Keras would need a call, and would take ids for floats.
            ids = {
                name: keras.InputSpec("int32", (None, None), name=name)
                for name in ("source", "target")
            }
            input_signature = [ids]
        super().export(filepath, format, verbose, input_signature, **kwargs)

    def get_config(self) -> dict[str, typing.Any]:
        """Returns the constructor's arguments."""
        fields = dataclasses.asdict(self.config)
        return {**super().get_config(), "config": fields}

    @classmethod
    def from_config(
        cls,
        config: dict[str, typing.Any],
        custom_objects: dict[str, typing.Any] | None = None,
    ) -> typing.Self:
        """Creates the model from the output of `get_config`."""
        arguments = dict(config)
        fields = arguments.pop("config")
        return cls(TransformerConfig(**fields), **arguments)


def _refuse_class_weight(class_weight):
    if class_weight is not None:
        # Keras would look up the position of each sentence's highest label.
        raise ValueError(
            "class_weight is for one label per row, not for one per token; "
            "pass the weight of each label as sample_weight, float [B, T]."
        )
