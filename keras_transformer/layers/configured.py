"""What the stacks and their layers have in common: one configuration."""

import dataclasses

import keras

from keras_transformer.config import TransformerConfig


class ConfiguredLayer(keras.layers.Layer):
    """A layer made from a TransformerConfig, and saved with it.

    Args:
        config: the TransformerConfig; also the attribute `config`.
        **kwargs: of `keras.layers.Layer`.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.supports_masking = True

    def get_config(self):
        """Returns the constructor's arguments."""
        fields = dataclasses.asdict(self.config)
        return {**super().get_config(), "config": fields}

    @classmethod
    def from_config(cls, config):
        """Makes the layer from what `get_config` returned."""
        arguments = dict(config)
        fields = arguments.pop("config")
        return cls(TransformerConfig(**fields), **arguments)
