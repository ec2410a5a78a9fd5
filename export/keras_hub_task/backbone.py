"""The Transformer as a KerasHub backbone."""

import dataclasses
import typing
from collections.abc import Callable, Mapping, Sequence

import keras
import keras_hub
from keras import ops

import keras_transformer as kt
from export.model_directory import ModelDirectory
from keras_transformer.config import PAD_ID
from keras_transformer.layers.base import flatten_layers
from keras_transformer.types import Tensor, TensorLike

_CONFIG_FIELDS = {
    field.name for field in dataclasses.fields(kt.TransformerConfig)
}


class FromPresetMixin:
    """Lets `from_preset` load model directories with `cls.from_directory`."""

    from_directory: typing.ClassVar[Callable[..., typing.Any]]

    @classmethod
    def from_preset(cls, preset: str, **kwargs: typing.Any) -> typing.Self:
        """Loads a model directory, or any preset that KerasHub accepts.

        Raises ValueError or InputError if `preset` is neither.
        """
        directory = ModelDirectory(preset)
        # Preset folders store their vocabulary elsewhere.
        if directory.vocabulary_path.exists():
            return cls.from_directory(directory, **kwargs)
        return super().from_preset(preset, **kwargs)  # type: ignore[misc]


@keras.saving.register_keras_serializable("keras_transformer")
class TransformerBackbone(FromPresetMixin, keras_hub.models.Backbone):
    """Encoder and decoder, without the projection to logits.

    Letters: B batch, S source length, T target length, D d_model. Inputs are a
    dict, int32: `encoder_token_ids` and `encoder_padding_mask`, [B, S],
    `decoder_token_ids` and `decoder_padding_mask`, [B, T]. Positions with mask
    0 or id 0 are padding. Outputs are a dict, float: `encoder_sequence_output`,
    [B, S, D], and `decoder_sequence_output`, [B, T, D]. Keyword arguments are
    fields of TransformerConfig and arguments of Backbone.

    Attributes:
        transformer: kt.Transformer with the weights.
        config: its TransformerConfig.
        token_embedding: its target embedding, by KerasHub's name.
    """

    def __init__(self, dtype: typing.Any = None, **kwargs: typing.Any):
        fields = {name: kwargs[name] for name in _CONFIG_FIELDS & kwargs.keys()}
        for name in fields:
            del kwargs[name]
        config = kt.TransformerConfig(**fields)
        stacks = _EncoderDecoder(config, dtype=dtype, name="stacks")
        inputs = {
            name: keras.Input((None,), dtype="int32", name=name)
            for side in ("encoder", "decoder")
            for name in (f"{side}_token_ids", f"{side}_padding_mask")
        }
        super().__init__(
            inputs=inputs, outputs=stacks(inputs), dtype=dtype, **kwargs
        )
        self.config = config
        self.transformer = stacks.transformer
        self.token_embedding = stacks.transformer.target_embedding

    def get_config(self) -> dict[str, typing.Any]:
        """Returns the arguments of the constructor, unless quantized."""
        fields = self.transformer.get_config()["config"]
        return {**super().get_config(), **fields}

    def default_lora_layer_names(self) -> list[str]:
        """Returns the names of the layers that LoRA adapts."""
        return ["query_key_value", "query", "key_value"]

    def enable_lora(
        self, rank: int, target_layer_names: Sequence[str] | None = None
    ) -> None:
        """Freezes all weights and adapts projections with LoRA.

        Compile the task again afterwards. Saving stores the adapted model;
        `save_lora_weights` stores the LoRA weights alone. `target_layer_names`
        are `default_lora_layer_names()` by default. Raises ValueError if no
        layer of these names supports LoRA.
        """
        defaults = self.default_lora_layer_names()
        names = target_layer_names or defaults
        layers = [
            layer
            for layer in flatten_layers(self)
            if layer.name in names and hasattr(layer, "enable_lora")
        ]
        if not layers:
            raise ValueError(
                f"Expected target_layer_names among {defaults}, got {names}."
            )
        super().enable_lora(rank, names)
        for layer in layers:
            # `save_lora_weights` omits biases, so they must not be trained.
            if layer.bias is not None:
                layer.bias.trainable = False

    @classmethod
    def from_directory(
        cls,
        directory: ModelDirectory,
        load_weights: bool = True,
        **kwargs: typing.Any,
    ) -> typing.Self:
        """Returns the backbone of a ModelDirectory."""
        config = directory.read_config()
        backbone = cls(**{**dataclasses.asdict(config), **kwargs})
        if load_weights:
            model = directory.load_model()
            backbone.transformer.set_weights(model.get_weights())
        return backbone


class _EncoderDecoder(keras.layers.Layer):
    """Encoder and decoder as one layer of a functional model."""

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.transformer = kt.Transformer(
            config, dtype=self.dtype_policy, name="transformer"
        )

    def build(self, input_shape):
        # The constructor of the Transformer has created the weights.
        self.built = True

    def call(self, inputs, training=False):
        ids = {
            "source": mask_ids(inputs, "encoder"),
            "target": mask_ids(inputs, "decoder"),
        }
        memory, states = self.transformer.hidden_states(ids, training)
        return {
            "encoder_sequence_output": memory,
            "decoder_sequence_output": states,
        }


def mask_ids(inputs: Mapping[str, TensorLike], side: str) -> Tensor:
    """Returns TransformerBackbone's "encoder" or "decoder" ids, 0 if masked."""
    ids = ops.cast(inputs[f"{side}_token_ids"], "int32")
    mask = ops.cast(inputs[f"{side}_padding_mask"], "bool")
    return ops.where(mask, ids, PAD_ID)


def move_given_tokens(
    inputs: Mapping[str, TensorLike], count: int
) -> dict[str, Tensor]:
    """Moves the `count` ids after the begin id of a decoder before sources."""
    moved = {}
    for name in ("token_ids", "padding_mask"):
        source, target = inputs[f"encoder_{name}"], inputs[f"decoder_{name}"]
        begin, given, rest = ops.split(target, [1, 1 + count], axis=1)
        moved[f"encoder_{name}"] = ops.concatenate([given, source], axis=1)
        moved[f"decoder_{name}"] = ops.concatenate([begin, rest], axis=1)
    return moved
