"""The Transformer of "Attention Is All You Need" for Keras 3."""

from keras_transformer.config import (
    BEGIN_ID,
    END_ID,
    PAD_ID,
    UNKNOWN_ID,
    TransformerConfig,
)
from keras_transformer.decoding.alignment import attention_scores, force_align
from keras_transformer.decoding.beam_search import beam_search
from keras_transformer.decoding.ensemble import Ensemble
from keras_transformer.decoding.output_vocabulary import OutputVocabulary
from keras_transformer.decoding.sampling import SamplingConfig, sample_ids
from keras_transformer.decoding.search_config import (
    BeamSearchConfig,
    Constraints,
    Grammar,
    WordEdges,
)
from keras_transformer.decoding.translate import (
    score_ids,
    token_log_probs,
    translate_ids,
)
from keras_transformer.layers.attention import KVCache, MultiHeadAttention
from keras_transformer.layers.decoder import Decoder, DecoderLayer
from keras_transformer.layers.embedding import (
    LearnedPositionEmbedding,
    SharedEmbedding,
    SinusoidalPositionEncoding,
)
from keras_transformer.layers.encoder import Encoder, EncoderLayer
from keras_transformer.layers.feed_forward import PositionwiseFeedForward
from keras_transformer.layers.masks import AttentionMask
from keras_transformer.layers.transformer_layer import ResidualConnection
from keras_transformer.loss import LabelSmoothedCrossEntropy
from keras_transformer.parsing.parser_transformer import ParserTransformer
from keras_transformer.schedule import Cooldown, TransformerSchedule
from keras_transformer.transformer import Transformer

__version__ = "0.1.0"

__all__ = [
    "AttentionMask",
    "BEGIN_ID",
    "BeamSearchConfig",
    "Constraints",
    "Cooldown",
    "Decoder",
    "DecoderLayer",
    "END_ID",
    "Encoder",
    "EncoderLayer",
    "Ensemble",
    "Grammar",
    "KVCache",
    "LabelSmoothedCrossEntropy",
    "LearnedPositionEmbedding",
    "MultiHeadAttention",
    "OutputVocabulary",
    "PAD_ID",
    "ParserTransformer",
    "PositionwiseFeedForward",
    "ResidualConnection",
    "SamplingConfig",
    "SharedEmbedding",
    "SinusoidalPositionEncoding",
    "Transformer",
    "TransformerConfig",
    "TransformerSchedule",
    "UNKNOWN_ID",
    "WordEdges",
    "attention_scores",
    "beam_search",
    "force_align",
    "sample_ids",
    "score_ids",
    "token_log_probs",
    "translate_ids",
]
