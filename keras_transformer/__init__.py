"""The Transformer of "Attention Is All You Need" for Keras 3."""

from keras_transformer.alignment import alignment_of
from keras_transformer.beam_search import (
    BeamSearchResult,
    Demands,
    beam_search,
)
from keras_transformer.cache import Cache
from keras_transformer.config import TransformerConfig
from keras_transformer.cooldown import Cooldown
from keras_transformer.ensemble import Ensemble
from keras_transformer.given_translations import (
    align_ids,
    attend_ids,
    score_ids,
)
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
from keras_transformer.recording_decoder import alignments_of
from keras_transformer.sample_ids import sample_ids
from keras_transformer.sampling import Samples, SamplingRules, sample
from keras_transformer.schedule import TransformerSchedule
from keras_transformer.search_rules import SearchRules, search_rules
from keras_transformer.transformer import Transformer
from keras_transformer.translate_ids import (
    output_room,
    translate_ids,
    translate_ids_and_attend,
    translate_ids_in_segments,
)

__version__ = "0.1.0"

__all__ = [
    "BeamSearchResult",
    "Cache",
    "Cooldown",
    "Decoder",
    "Demands",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "Ensemble",
    "LabelSmoothedCrossEntropy",
    "LearnedPositionEmbedding",
    "MultiHeadAttention",
    "PositionwiseFeedForward",
    "ResidualConnection",
    "Samples",
    "SamplingRules",
    "SearchRules",
    "SharedEmbedding",
    "SinusoidalPositionEncoding",
    "Transformer",
    "TransformerConfig",
    "TransformerSchedule",
    "align_ids",
    "alignment_of",
    "alignments_of",
    "attend_ids",
    "beam_search",
    "output_room",
    "sample",
    "sample_ids",
    "score_ids",
    "search_rules",
    "translate_ids",
    "translate_ids_and_attend",
    "translate_ids_in_segments",
]
