"""Writes a SentencePiece model as the `tokenizer.json` of Hugging Face.

It is written for `tokenizers` and for transformers.js, which ignores a charsmap
and replaces it by its own rules.
"""

import base64
import re
import typing

import sentencepiece

from export.common.errors import InputError
from export.tokenizers import sentencepiece_model
from export.tokenizers.letter_case import ANY_MARK, CASE_MARKS
from export.tokenizers.tags import SPACE, TAG
from keras_transformer.config import END_ID, UNKNOWN_ID

_TYPE = sentencepiece_model.ModelProto.SentencePiece
_BPE = sentencepiece_model.TrainerSpec.BPE
_UNIGRAM = sentencepiece_model.TrainerSpec.UNIGRAM
_NFKC_RULES, _NFC_RULES = "nmt_nfkc", "nmt_nfc"
_MARK_PIECES = {f"{SPACE}{mark}" for mark in CASE_MARKS}
# Of a text; ^ and $ are also those of a line in some languages.
_START, _END = r"(?<![\s\S])", r"(?![\s\S])"
_METASPACE = {
    "type": "Metaspace",
    "replacement": SPACE,
    "prepend_scheme": "always",
    "split": True,
}


def make_tokenizer_json(proto: bytes) -> dict[str, typing.Any]:
    """Returns the content of a `tokenizer.json` with the same ids.

    Texts that contain the name of a special token have other ids. A tag is
    recognized anywhere in a text. Marks of letter case are dropped: a text in
    capitals is not marked, and they are no part of a decoded text if special
    tokens are skipped.

    Args:
        proto: the SentencePiece model of one side of a vocabulary.

    Raises:
        InputError: if a tokenizer.json cannot represent the model.
    """
    model = sentencepiece_model.ModelProto.FromString(proto)
    _validate(model)
    end = model.pieces[END_ID].piece
    pieces = [{"Sequence": {"id": each, "type_id": 0}} for each in "AB"]
    last = {"SpecialToken": {"id": end, "type_id": 0}}
    decoders = [
        {"type": "ByteFallback"},
        _replace(SPACE, " "),
        {"type": "Fuse"},
        _replace(f"{_START} +", ""),
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _add_token(index, piece)
            for index, piece in enumerate(model.pieces)
            if piece.type not in (_TYPE.NORMAL, _TYPE.BYTE)
        ],
        "normalizer": {
            "type": "Sequence",
            "normalizers": _list_normalizers(model, proto),
        },
        "pre_tokenizer": _METASPACE,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [pieces[0], last],
            "pair": [*pieces, last],
            "special_tokens": {
                end: {"id": end, "ids": [END_ID], "tokens": [end]}
            },
        },
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": _make_model(model),
    }


def _validate(model):
    """Raises InputError if a tokenizer.json cannot represent a ModelProto."""
    spec, rules = model.trainer_spec, model.normalizer_spec
    types = {
        piece.type for piece in model.pieces if piece.piece not in _MARK_PIECES
    }
    names = _NFKC_RULES, _NFC_RULES, "identity"
    problems = {
        "another algorithm than byte-pair encoding and unigram": (
            spec.model_type not in (_BPE, _UNIGRAM)
        ),
        # transformers.js writes <unk> for unknown characters.
        "byte tokens in a unigram model": (
            spec.byte_fallback and spec.model_type == _UNIGRAM
        ),
        f"a normalization other than {', '.join(names)}": (
            rules.name not in names
        ),
        "another treatment of spaces than SentencePiece's default": (
            spec.treat_whitespace_as_suffix
            or not rules.add_dummy_prefix
            or not rules.remove_extra_whitespaces
            or any(
                SPACE in piece.piece.strip(SPACE)
                for piece in model.pieces
                if piece.type == piece.NORMAL
            )
        ),
        "user-defined tokens": _TYPE.USER_DEFINED in types,
        "tokens that no text has, as imported ones have": (
            _TYPE.UNUSED in types or len(model.pieces) > spec.vocab_size
        ),
    }
    for problem, is_found in problems.items():
        if is_found:
            raise InputError(
                f"The vocabulary has {problem}, which a tokenizer.json for "
                "transformers.js cannot represent; CTranslate2 takes the model "
                "(export.ctranslate2)."
            )


def _add_token(index, piece):
    """Returns the entry of a special token; tags drop spaces before them."""
    return {
        "id": index,
        "content": piece.piece,
        "single_word": False,
        "lstrip": bool(re.fullmatch(TAG, piece.piece)),
        "rstrip": False,
        "normalized": False,
        "special": True,
    }


def _list_normalizers(model, proto):
    dropped = "\0"
    if _MARK_PIECES.issubset(piece.piece for piece in model.pieces):
        dropped += f"|{ANY_MARK}"
    steps = [_replace(dropped, "")]
    rules = model.normalizer_spec
    if rules.name == _NFKC_RULES:
        charsmap = base64.b64encode(rules.precompiled_charsmap).decode("ascii")
        steps.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    elif rules.name == _NFC_RULES:
        normalizer = sentencepiece.SentencePieceNormalizer(model_proto=proto)
        for result in "", " ":
            found = [a for a, b in normalizer.decompile() if b == result]
            steps.append(_replace("|".join(map(re.escape, found)), result))
        steps.append({"type": "NFC"})
    # Not the Strip of transformers.js, which strips other characters too.
    return [
        *steps,
        _replace(f"{_START} +|[ {SPACE}]+{_END}", ""),
        _replace(" {2,}", " "),
        # Otherwise Metaspace takes it for the space that it adds.
        _replace(f"{_START}{SPACE}", f" {SPACE}"),
    ]


def _replace(pattern, content):
    return {
        "type": "Replace",
        "pattern": {"Regex": pattern},
        "content": content,
    }


def _make_model(model):
    pieces = [each.piece for each in model.pieces]
    if model.trainer_spec.model_type == _UNIGRAM:
        scores = [[each.piece, each.score] for each in model.pieces]
        return {"type": "Unigram", "unk_id": UNKNOWN_ID, "vocab": scores}
    return {
        "type": "BPE",
        "unk_token": pieces[UNKNOWN_ID],
        "fuse_unk": True,
        "byte_fallback": model.trainer_spec.byte_fallback,
        "vocab": {piece: index for index, piece in enumerate(pieces)},
        "merges": _list_merges(model.pieces),
    }


def _list_merges(pieces):
    """Returns all pairs of pieces that form a piece, best scores first."""
    scores = {
        each.piece: each.score for each in pieces if each.type == _TYPE.NORMAL
    }
    return [
        f"{piece[:index]} {piece[index:]}"
        for piece in sorted(scores, key=scores.__getitem__, reverse=True)
        for index in range(1, len(piece))
        if piece[:index] in scores and piece[index:] in scores
    ]
