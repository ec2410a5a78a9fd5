"""The Transformer of "Attention Is All You Need" for Keras 3."""

from keras_transformer.beam_decoder import output_room, translate_ids
from keras_transformer.beam_search import BeamSearchResult, beam_search
from keras_transformer.config import TransformerConfig
from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.decoder import Decoder
from keras_transformer.layers.decoder_layer import DecoderLayer
from keras_transformer.layers.embedding import SharedEmbedding
from keras_transformer.layers.encoder import Encoder
from keras_transformer.layers.encoder_layer import EncoderLayer
from keras_transformer.layers.feed_forward import PositionwiseFeedForward
from keras_transformer.layers.learned_positions import LearnedPositionEmbedding
from keras_transformer.layers.residual import ResidualConnection
from keras_transformer.layers.sinusoidal_positions import (
    SinusoidalPositionEncoding,
)
from keras_transformer.loss import LabelSmoothedCrossEntropy
from keras_transformer.schedule import TransformerSchedule
from keras_transformer.transformer import Transformer

__version__ = "0.1.0"

__all__ = [
    "BeamSearchResult",
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "LabelSmoothedCrossEntropy",
    "LearnedPositionEmbedding",
    "MultiHeadAttention",
    "PositionwiseFeedForward",
    "ResidualConnection",
    "SharedEmbedding",
    "SinusoidalPositionEncoding",
    "Transformer",
    "TransformerConfig",
    "TransformerSchedule",
    "beam_search",
    "output_room",
    "translate_ids",
]
