"""Converts the `tokenizer.json` of NllbTokenizer to a SentencePiece model."""

import base64
import pathlib

from export.common.errors import InputError
from export.pretrained.config_files import (
    ANY,
    IGNORED,
    read_json,
    split_keys,
    validate_fields,
)
from export.tokenizers import sentencepiece_model

_BPE = sentencepiece_model.TrainerSpec.BPE
# Of the file and its parts, as SentencePiece has them; see `validate_fields`.
# NllbTokenizer sets truncation, padding and the post-processor itself.
_FILE_FIELDS = split_keys(
    {
        "model added_tokens normalizer pre_tokenizer": ANY,
        "version truncation padding post_processor decoder": IGNORED,
    }
)
_MODEL_FIELDS = split_keys(
    {
        "vocab merges": ANY,
        "type": ("BPE",),
        "unk_token": ("<unk>",),
        "fuse_unk": (True,),
        "byte_fallback ignore_merges": (False,),
        "dropout": (None, 0),
        "continuing_subword_prefix end_of_word_suffix": (None, ""),
    }
)
_NORMALIZER_FIELDS = split_keys(
    {
        "precompiled_charsmap strip_left strip_right": ANY,
        "type": ("Precompiled", "Strip", "Replace"),
        "pattern": ({"Regex": " {2,}"},),
        "content": (" ", "▁"),
    }
)
_PRE_TOKENIZER_FIELDS = split_keys(
    {
        # No merge crosses a ▁.
        "split": IGNORED,
        "type": ("WhitespaceSplit", "Metaspace"),
        "replacement str_rep": ("▁",),
        "add_prefix_space": (True,),
        "prepend_scheme": ("always", "first"),
    }
)


def read_fast_tokenizer(path: pathlib.Path) -> tuple[dict[str, int], bytes]:
    """Reads a `tokenizer.json` with byte-pair encoding.

    Returns the dict from piece to id, and the bytes of a SentencePiece model
    that makes the same merges. Raises InputError for other tokenizers.
    """
    content = read_json(path)
    try:
        model = content["model"]
        vocab, merges = dict(model["vocab"]), model["merges"]
        validate_fields(content, _FILE_FIELDS, path)
        validate_fields(model, _MODEL_FIELDS, path)
        if any(type(i) is not int or i < 0 for i in vocab.values()):
            raise ValueError("its vocab has no ids")
        for token in content.get("added_tokens") or ():
            vocab[str(token["content"])] = int(token["id"])
        steps = _list_steps(content["pre_tokenizer"], "pretokenizers")
        for step in steps:
            validate_fields(step, _PRE_TOKENIZER_FIELDS, path)
        if "Metaspace" not in [step["type"] for step in steps]:
            raise ValueError("its words do not begin with ▁")
        charsmap = _read_charsmap(content.get("normalizer"), path)
        pairs = [
            tuple(each.split(" ")) if isinstance(each, str) else tuple(each)
            for each in merges
        ]
        ranks: dict[str, int] = {}
        for left, right in pairs:
            ranks.setdefault(left + right, len(ranks) + 1)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} is not the tokenizer of an NLLB model: "
            f"{error or type(error).__name__}."
        ) from error
    return vocab, _make_sentencepiece(vocab, ranks, charsmap)


def _list_steps(part, name):
    """Returns the steps of a part of a tokenizer, which may be a sequence."""
    return part[name] if part["type"] == "Sequence" else [part]


def _read_charsmap(normalizer, path):
    """Returns SentencePiece's normalization rules in a normalizer."""
    charsmap = b""
    for step in _list_steps(normalizer, "normalizers") if normalizer else ():
        validate_fields(step, _NORMALIZER_FIELDS, path)
        if step["type"] == "Precompiled":
            content = step["precompiled_charsmap"]
            charsmap = base64.b64decode(content, validate=True)
    return charsmap


def _make_sentencepiece(vocab, ranks, charsmap):
    model = sentencepiece_model.ModelProto()
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
