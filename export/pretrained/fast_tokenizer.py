"""Converts the `tokenizer.json` of NllbTokenizer to a SentencePiece model."""

import base64
import binascii

from sentencepiece import sentencepiece_model_pb2

from export.common.errors import InputError
from export.pretrained.config_files import read_json

_BPE = sentencepiece_model_pb2.TrainerSpec.BPE


def read_fast_tokenizer(path):
    """Reads a `tokenizer.json` with byte-pair encoding.

    Returns the dict from piece to id, and the bytes of a SentencePiece model
    that makes the same merges. Raises InputError for other tokenizers.
    """
    content = read_json(path)
    try:
        model = content["model"]
        vocab, merges = dict(model["vocab"]), model["merges"]
        if model["type"] != "BPE" or model.get("byte_fallback"):
            raise ValueError("its model is not BPE without bytes")
        if any(type(i) is not int or i < 0 for i in vocab.values()):
            raise ValueError("its vocab has no ids")
        for token in content.get("added_tokens") or ():
            vocab[str(token["content"])] = int(token["id"])
        charsmap = _read_charsmap(content.get("normalizer"))
        pairs = [
            tuple(each.split(" ")) if isinstance(each, str) else tuple(each)
            for each in merges
        ]
        ranks = {}
        for left, right in pairs:
            ranks.setdefault(left + right, len(ranks) + 1)
        if content["pre_tokenizer"]["type"] not in ("Metaspace", "Sequence"):
            raise ValueError("its words do not begin with ▁")
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise InputError(
            f"{path} is not the tokenizer of an NLLB model: "
            f"{error or type(error).__name__}."
        ) from error
    return vocab, _make_sentencepiece(vocab, ranks, charsmap)


def _read_charsmap(normalizer):
    """Returns SentencePiece's normalization rules in a normalizer."""
    steps = (normalizer or {}).get("normalizers", [normalizer or {}])
    for step in steps:
        if step.get("type") == "Precompiled":
            return base64.b64decode(step["precompiled_charsmap"], validate=True)
    return b""


def _make_sentencepiece(vocab, ranks, charsmap):
    model = sentencepiece_model_pb2.ModelProto()
    model.trainer_spec.model_type = _BPE
    model.normalizer_spec.name = "precompiled"
    model.normalizer_spec.precompiled_charsmap = charsmap
    special = "<unk>", "<s>", "</s>", "<pad>"
    types = model.SentencePiece.Type
    for piece in special[:3]:
        kind = types.UNKNOWN if piece == "<unk>" else types.CONTROL
        model.pieces.add(piece=piece, score=0.0, type=kind)
    # Merges have descending scores; single characters are never merged to.
    lowest = -float(len(ranks) + 1)
    for piece in sorted(vocab, key=vocab.get):
        if len(piece) == 1 or piece in ranks:
            score = -float(ranks.get(piece, -lowest))
            model.pieces.add(piece=piece, score=score, type=types.NORMAL)
    return model.SerializeToString(deterministic=True)
