"""The Transformer of "Attention Is All You Need" for Keras 3."""

from keras_transformer.config import TransformerConfig
from keras_transformer.decoding.alignment import alignment_of, alignments_of
from keras_transformer.decoding.beam_search import (
    BeamSearchResult,
    beam_search,
)
from keras_transformer.decoding.ensemble import Ensemble
from keras_transformer.decoding.rules import (
    Constraints,
    Grammar,
    SearchRules,
    search_rules,
)
from keras_transformer.decoding.sampling import (
    Samples,
    SamplingRules,
    sample,
    sample_ids,
)
from keras_transformer.decoding.shortlist import Shortlist
from keras_transformer.decoding.target_pieces import TargetPieces
from keras_transformer.decoding.translate import (
    align_ids,
    attend_ids,
    output_capacity,
    score_ids,
    translate_ids,
    translate_ids_and_attend,
    translate_ids_in_segments,
)
from keras_transformer.decoding.tree_grammar import TreeGrammar
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
    "BeamSearchResult",
    "Constraints",
    "Cooldown",
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "Ensemble",
    "Grammar",
    "KVCache",
    "LabelSmoothedCrossEntropy",
    "LearnedPositionEmbedding",
    "MultiHeadAttention",
    "ParserTransformer",
    "PositionwiseFeedForward",
    "ResidualConnection",
    "Samples",
    "SamplingRules",
    "SearchRules",
    "SharedEmbedding",
    "Shortlist",
    "SinusoidalPositionEncoding",
    "TargetPieces",
    "Transformer",
    "TransformerConfig",
    "TransformerSchedule",
    "TreeGrammar",
    "align_ids",
    "alignment_of",
    "alignments_of",
    "attend_ids",
    "beam_search",
    "output_capacity",
    "sample",
    "sample_ids",
    "score_ids",
    "search_rules",
    "translate_ids",
    "translate_ids_and_attend",
    "translate_ids_in_segments",
]
