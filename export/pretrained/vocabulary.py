"""Their pieces and ids as a vocabulary of ours, and ours as theirs.

A Marian model has two SentencePiece models, which cut text into pieces, and a
table from piece to id. Both are put into a SentencePiece model of ours for
each side, which gives the model's ids by itself: its pieces are those of the
table, in the table's order behind our four, each with the score that the
side's own SentencePiece model gives it. A piece of the table that the side's
model lacks is there, but marked as unused, so that no text is cut into it.
Pieces that the table lacks follow at the end, behind the V of the model
(`trainer_spec.vocab_size`), and count as unknown; without them text would be
cut otherwise.
"""

import json
import re
import typing

import numpy as np
from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2

from export.errors import InputError
from export.pretrained.plain_tokenizer import TAG
from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID

_PIECE = sentencepiece_model_pb2.ModelProto.SentencePiece
_UNIGRAM = sentencepiece_model_pb2.TrainerSpec.UNIGRAM
# What our four are called, in the order of their ids.
SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")
# Our padding where a table of theirs has it; see `export.marian`.
PADDING_ENTRY = "<blank>"
# A row that the model has and their table has not.
NO_ROW = -1


class Vocabulary(typing.NamedTuple):
    """One side's vocabulary.

    Attributes:
        proto: bytes of a SentencePiece model with our ids.
        rows: int array [V]: which row of their matrices each id has, NO_ROW
            for padding that they have no row of.
    """

    proto: bytes
    rows: np.ndarray


def read_table(content, name):
    """Returns a table from piece to id, as `vocab.json` has it.

    Args:
        content: its bytes.
        name: of the file, for messages.

    Raises:
        InputError: it is no such table.
    """
    try:
        table = json.loads(content, object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is not JSON: {error}.") from error
    if not isinstance(table, dict) or not all(
        type(number) is int and number >= 0 for number in table.values()
    ):
        raise InputError(f"{name} must hold a JSON object, piece to id.")
    return table


def complete_table(table, size, path):
    """Gives a piece to each row of a matrix.

    Args:
        table: dict, piece to id.
        size: rows of the matrix.
        path: pathlib.Path of the file, for messages.

    Returns:
        A dict whose ids are 0 to `size` - 1, and a list of str, notes on it.

    Raises:
        InputError: an id has no row, or several pieces.
    """
    table = dict(table)
    # OPUS-MT's tables lack ids whose pieces were the same but for some kind
    # of space at the end, and may have one of nothing.
    table.pop("", None)
    piece = max(table, key=table.get, default="")
    if table.get(piece, 0) >= size:
        raise InputError(
            f"{path} gives the id {table[piece]} to {piece!r}, but the model "
            f"has only {size:,} rows of embeddings; they are not of the same "
            "model, or its embeddings were not resized before it was saved."
        )
    unnamed = sorted(set(range(size)) - set(table.values()))
    if size - len(unnamed) != len(table):
        raise InputError(f"{path} gives one id to several pieces.")
    for number in unnamed:
        name = f"<{number}>"
        while name in table:
            name += "_"
        table[name] = number
    notes = []
    if unnamed:
        notes.append(
            f"{path.name} has no piece of {len(unnamed):,} of the model's "
            f"{size:,} ids"
        )
    return table, notes


def _no_duplicates(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a piece stands there twice")
    return found


def vocabulary_of(table, spm, unknown, begin, end, name):
    """Returns the Vocabulary of one side.

    Args:
        table: of `complete_table`.
        spm: bytes of the side's SentencePiece model.
        unknown: their id of an unknown piece.
        begin: their id that the decoder begins with; None where their matrix
            has no row of it.
        end: their id of the end.
        name: of the SentencePiece model's file, for messages.

    Raises:
        InputError: the SentencePiece model is none, or cannot be used.
    """
    model = _read_model(spm, name)
    scored = {
        piece.piece: piece
        for piece in model.pieces
        if piece.type not in (_PIECE.CONTROL, _PIECE.UNKNOWN)
    }
    padding = table.get(PADDING_ENTRY, NO_ROW)
    begin = NO_ROW if begin is None else begin
    special = [padding, unknown, begin, end]
    pieces = sorted(table, key=table.get)
    others = [row for row in range(len(table)) if row not in set(special)]
    names = _names([pieces[row] for row in others], name)
    if model.trainer_spec.model_type != _UNIGRAM and not set(names) <= {
        *scored
    }:
        raise InputError(
            f"{name} is of the type BPE and lacks pieces of the table, which "
            "cannot be put beside each other; only the type unigram can."
        )
    unlisted = [piece for piece in scored.values() if piece.piece not in table]
    ours = sentencepiece_model_pb2.ModelProto(
        trainer_spec=model.trainer_spec, normalizer_spec=model.normalizer_spec
    )
    if model.HasField("denormalizer_spec"):
        ours.denormalizer_spec.CopyFrom(model.denormalizer_spec)
    _add_special(ours, len(special) + len(others))
    control = {
        *SPECIAL_PIECES,
        *(each.piece for each in model.pieces if each.type == _PIECE.CONTROL),
    }
    for row, piece in zip(others, names):
        if piece in scored and not re.fullmatch(TAG, piece):
            ours.pieces.append(scored[piece])
        else:
            kind = _PIECE.UNUSED
            if pieces[row] in control:
                kind = _PIECE.CONTROL
            ours.pieces.add(piece=piece, score=0.0, type=kind)
    ours.pieces.extend(unlisted)
    return Vocabulary(
        ours.SerializeToString(deterministic=True),
        np.array([*special, *others], np.int64),
    )


def _read_model(content, name):
    model = sentencepiece_model_pb2.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise InputError(f"{name} is not a SentencePiece model.") from error
    if not model.pieces:
        raise InputError(f"{name} is not a SentencePiece model.")
    _require_text([each.piece for each in model.pieces], name)
    return model


def _require_text(pieces, name):
    # Either ends the whole process in SentencePiece.
    if any(piece[:1] in ("", "\0") for piece in pieces):
        raise InputError(
            f"{name} has an empty piece, or one that begins with NUL; remove "
            "it."
        )


def _names(pieces, name):
    """Returns what the pieces are called in ours, where four are taken."""
    _require_text(pieces, f"The table beside {name}")
    taken = {*pieces, *SPECIAL_PIECES}
    names = []
    for piece in pieces:
        if piece in SPECIAL_PIECES:
            while piece in taken:
                piece = f"{piece}_"
            taken.add(piece)
        names.append(piece)
    return names


def _add_special(model, size):
    kinds = (_PIECE.CONTROL, _PIECE.UNKNOWN, _PIECE.CONTROL, _PIECE.CONTROL)
    for piece, kind in zip(SPECIAL_PIECES, kinds):
        model.pieces.add(piece=piece, score=0.0, type=kind)
    spec = model.trainer_spec
    spec.vocab_size = size
    spec.pad_id, spec.unk_id = PAD_ID, UNKNOWN_ID
    spec.bos_id, spec.eos_id = BEGIN_ID, END_ID
    spec.pad_piece, spec.unk_piece, spec.bos_piece, spec.eos_piece = (
        SPECIAL_PIECES
    )
