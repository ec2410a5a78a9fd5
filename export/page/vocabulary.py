"""Vocabularies as the page's tokenizer.js reads them."""

import base64
import typing

import numpy as np

from export.common.errors import InputError
from export.tokenizers.letter_case import has_case_marks
from export.tokenizers.python_tokenizers import (
    LANGUAGE_PAIR,
    OPUS_MT,
    opus_rules,
    read_kind,
    split_vocabulary,
    text_piece_mask,
)
from export.tokenizers.sentencepiece_model import ModelProto

_TYPES = {1: "unigram", 2: "bpe"}
_NORMAL, _UNKNOWN, _UNUSED, _READ_AS_UNKNOWN = 1, 2, 5, 7
# Kinds of pieces that texts may not contain; a normal one still splits them.
_WITHOUT_TEXT = {_NORMAL: _READ_AS_UNKNOWN, _UNUSED: _UNKNOWN}


def describe_vocabularies(vocabulary: bytes) -> list[dict[str, typing.Any]]:
    """Returns the tokenizers of source and target as JSON objects.

    `vocabulary` is the content of `vocabulary.model`. Raises InputError for
    options of SentencePiece that the page lacks.
    """
    source, target = split_vocabulary(vocabulary)
    is_pair = source is not target
    sides = [_describe(source, is_pair) | {"hasTag": is_pair}]
    return [*sides, _describe(target, is_pair)] if is_pair else sides


def _describe(proto, is_pair):
    model = ModelProto.FromString(proto)
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    kinds = [piece.type for piece in model.pieces]
    if is_pair:
        kinds = [
            kind if is_text else _WITHOUT_TEXT.get(kind, kind)
            for kind, is_text in zip(kinds, text_piece_mask(proto))
        ]
    for is_missing, option in (
        (trainer.model_type not in _TYPES, "words or characters as pieces"),
        (read_kind(proto) == LANGUAGE_PAIR, "tags of two languages"),
        (trainer.treat_whitespace_as_suffix, "treat_whitespace_as_suffix"),
        (not normalizer.escape_whitespaces, "escape_whitespaces=false"),
        (trainer.model_type == 2 and _UNUSED in kinds, "unused pieces of BPE"),
    ):
        if is_missing:
            raise InputError(
                f"The page's tokenizer has no {option}, which the vocabulary "
                "needs; serve this model with export.serve instead."
            )
    rules = opus_rules() if read_kind(proto) == OPUS_MT else ()
    return {
        "type": _TYPES[trainer.model_type],
        "pieces": [piece.piece for piece in model.pieces],
        # The shortest digits for float32.
        "scores": [float(str(np.float32(p.score))) for p in model.pieces],
        "kinds": "".join(map(str, kinds)),
        "rules": rules,
        "charsmap": base64.b64encode(normalizer.precompiled_charsmap).decode(),
        "prefix": normalizer.add_dummy_prefix,
        "trim": normalizer.remove_extra_whitespaces,
        "byteFallback": trainer.byte_fallback,
        "isPair": is_pair,
        "caseMarks": not is_pair
        and has_case_marks(piece.piece for piece in model.pieces),
    }
