"""Text in, text out: SentencePiece around a search in one ONNX graph.

By the operators of onnxruntime-extensions, which programs register with
onnxruntime.
"""

import numpy as np

from export.common.errors import InputError
from export.onnx.graph import EXTENSIONS, INT64, Graph, Value
from export.tokenizers.letter_case import ANY_MARK
from export.tokenizers.python_tokenizers import (
    OPUS_MT,
    opus_rules,
    read_kind,
    text_piece_mask,
)
from export.translators.languages import Languages
from keras_transformer.config import END_ID, UNKNOWN_ID


def validate_text_graph(languages: Languages) -> None:
    """Raises InputError for sources with tags of several languages."""
    if languages.codes:
        raise InputError(
            "A text file of ONNX takes no tags of languages: omit --text, or "
            "give a model of one pair of languages."
        )


def tokenize(
    graph: Graph, text: Value, proto: bytes, limit: int
) -> tuple[Value, Value]:
    """Returns the ids of one text, string [1], and whether it is truncated.

    They are int64 [1, S], with the end id, and bool [1]. `proto` is the
    SentencePiece model of sources, `limit` the maximum number of ids. Texts in
    capitals are not marked, see `letter_case`.
    """
    rules = opus_rules() if read_kind(proto) == OPUS_MT else ()
    for pattern, replacement in ((ANY_MARK, ""), *rules):
        text = graph.op(
            "StringRegexReplace",
            text,
            np.array([pattern], object),
            np.array([replacement], object),
            domain=EXTENSIONS,
        )
    # Neither several segmentations, nor begin, end and reversal.
    ids, _ = graph.op(
        "SentencepieceTokenizer",
        text,
        [0],
        np.zeros(1, np.float32),
        *[np.array([False])] * 3,
        outputs=2,
        domain=EXTENSIONS,
        model=proto,
    )
    ids = ids.cast(INT64)
    is_text = np.array(text_piece_mask(proto))
    ids = graph.where(graph.op("Gather", is_text, ids), ids, UNKNOWN_ID)
    truncated = ids.size(0) > limit - 1
    return graph.concat(ids[: limit - 1], END_ID)[None], truncated


def detokenize(graph: Graph, tokens: Value, proto: bytes) -> Value:
    """Returns the text of the best hypothesis, string [1].

    `tokens` are int64 [1, K, T], and `proto` is the target's SentencePiece
    model.
    """
    best = graph.op("Squeeze", tokens[:, 0], [0])
    is_text = best > END_ID
    best = graph.op("Compress", best, is_text)
    text = graph.op(
        "SentencepieceDecoder", best, domain=EXTENSIONS, model=proto
    )
    return graph.op(
        "StringRegexReplace",
        graph.reshape(text, 1),
        np.array([ANY_MARK], object),
        np.array([""], object),
        domain=EXTENSIONS,
    )
