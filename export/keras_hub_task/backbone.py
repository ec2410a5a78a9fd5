"""The Transformer as KerasHub's backbone."""

import dataclasses

import keras
import keras_hub
from keras import ops

import keras_transformer as kt
from export.keras_hub_task.directories import FromModelDirectory
from keras_transformer.config import PAD_ID

_FIELDS = [field.name for field in dataclasses.fields(kt.TransformerConfig)]


@keras.saving.register_keras_serializable("keras_transformer")
class TransformerBackbone(FromModelDirectory, keras_hub.models.Backbone):
    """Encoder and decoder, without the product that makes logits.

    Letters: B batch, S source length, T target length, D d_model. Called on
    a dict of `encoder_token_ids` and `encoder_padding_mask`, int32 [B, S],
    and `decoder_token_ids` and `decoder_padding_mask`, int32 [B, T], it
    returns a dict of `encoder_sequence_output`, float [B, S, D], and
    `decoder_sequence_output`, float [B, T, D]. Where a mask is 0, and where
    an id is 0, is padding.

    Args:
        dtype: a Keras dtype policy.
        **kwargs: fields of TransformerConfig, such as `vocabulary_size`, and
            what every backbone takes.

    Attributes:
        transformer: kt.Transformer, whose weights these are.
        config: its TransformerConfig.
        lora_rank: of `enable_lora`, or None.

    Raises:
        ValueError: a field has a value that it cannot have.
    """

    def __init__(self, dtype=None, **kwargs):
        given = [name for name in _FIELDS if name in kwargs]
        config = kt.TransformerConfig(**{n: kwargs.pop(n) for n in given})
        stacks = _Stacks(config, dtype=dtype, name="stacks")
        inputs = {
            name: keras.Input((None,), dtype="int32", name=name)
            for side in ("encoder", "decoder")
            for name in (f"{side}_token_ids", f"{side}_padding_mask")
        }
        super().__init__(
            inputs=inputs, outputs=stacks(inputs), dtype=dtype, **kwargs
        )
        self.config = config
        self.lora_rank = None
        self.transformer = stacks.transformer
        self.token_embedding = stacks.transformer.target_embedding

    def get_config(self):
        """Returns the constructor's arguments."""
        return {**super().get_config(), **dataclasses.asdict(self.config)}

    def default_lora_layer_names(self):
        """Returns the names of the layers that LoRA adapts."""
        return ["query_key_value", "query", "key_value"]

    def enable_lora(self, rank, target_layer_names=None):
        """Freezes all weights, and adapts projections by LoRA.

        Then compile the task again. What is saved is the adapted model;
        `save_lora_weights` saves the adaptation alone.

        Args:
            rank: of the adaptation, at least 1.
            target_layer_names: list of layers' names; by default
                `default_lora_layer_names()`.

        Raises:
            ValueError: the rank is out of range, no such layer has LoRA, or
                LoRA is enabled already.
        """
        names = target_layer_names
        if names is None:
            names = self.default_lora_layer_names()
        layers = [
            layer
            for layer in self._flatten_layers(include_self=False)
            if layer.name in names and hasattr(layer, "enable_lora")
        ]
        if not layers:
            raise ValueError(
                f"TransformerBackbone has no layer with LoRA named {names}; "
                f"give names among {self.default_lora_layer_names()}."
            )
        if not isinstance(rank, int) or rank < 1:
            raise ValueError(
                f"The rank of LoRA must be a whole number from 1, not {rank!r}."
            )
        if self.lora_rank is not None:
            raise ValueError(
                f"LoRA is enabled already, with rank {self.lora_rank}; load "
                "the backbone again to adapt it anew."
            )
        super().enable_lora(rank, names)
        for layer in layers:
            # KerasHub trains biases of adapted layers, and does not save them
            # in `save_lora_weights`.
            if layer.bias is not None:
                layer.bias.trainable = False
        self.lora_rank = rank

    @classmethod
    def of_directory(cls, directory, load_weights=True, **kwargs):
        """Returns the backbone of a ModelDirectory.

        Args:
            directory: ModelDirectory.
            load_weights: whether to take its weights; else random ones.
            **kwargs: of the constructor.

        Raises:
            InputError: the directory is not whole.
        """
        config = directory.read_config()
        made = cls(**{**dataclasses.asdict(config), **kwargs})
        if load_weights:
            model = directory.load_model()
            made.transformer.set_weights(model.get_weights())
        return made


@keras.saving.register_keras_serializable("keras_transformer")
class _Stacks(keras.layers.Layer):
    """The two stacks as one layer of a functional model."""

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.transformer = kt.Transformer(
            config, dtype=self.dtype_policy, name="transformer"
        )

    def build(self, input_shape):
        """The weights exist already."""
        self.built = True

    def call(self, inputs, training=False):
        """Returns the dict that TransformerBackbone does."""
        ids = {
            "source": without_padding(inputs, "encoder"),
            "target": without_padding(inputs, "decoder"),
        }
        memory, states = self.transformer.stacks(ids, training)
        return {
            "encoder_sequence_output": memory,
            "decoder_sequence_output": states,
        }


def without_padding(inputs, side):
    """Returns the ids of one side, 0 where its mask says padding.

    Args:
        inputs: dict, as TransformerBackbone takes.
        side: "encoder" or "decoder".

    Returns:
        int32, of the shape of the ids.
    """
    ids = ops.cast(inputs[f"{side}_token_ids"], "int32")
    real = ops.cast(inputs[f"{side}_padding_mask"], "bool")
    return ops.where(real, ids, PAD_ID)
