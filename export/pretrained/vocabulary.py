"""Pieces and ids of a Marian model as a vocabulary of this package.

A Marian model has two SentencePiece models, which cut text into pieces, and a
table from piece to id. Both become one SentencePiece model for each side, which
gives the ids by itself: its pieces are those of the table, in its order behind
the four special ones, each with the score that the side's own SentencePiece
model gives it. A piece of the table that the side's model lacks is marked as
unused, so that no text is cut into it. Pieces that the table lacks follow at
the end, behind the V of the model (`trainer_spec.vocab_size`), and count as
unknown; without them text would be cut otherwise.
"""

import re
import typing

import numpy as np
from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2

from export.common.errors import InputError
from export.pretrained.text_files import parse_json, read_bytes
from export.tokenizers.python_tokenizers import TAG
from export.tokenizers.vocabulary_file import has_crashing_piece
from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID

_PIECE = sentencepiece_model_pb2.ModelProto.SentencePiece
_UNIGRAM = sentencepiece_model_pb2.TrainerSpec.UNIGRAM
# The names of the special ids, in their order.
SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")
# The entry of a table for this package's padding; see `hugging_face_writer`.
PADDING_ENTRY = "<blank>"
# The row of an id that a checkpoint has no row for.
MISSING_ROW = -1


class Vocabulary(typing.NamedTuple):
    """The vocabulary of one side.

    Attributes:
        proto: bytes of a SentencePiece model.
        rows: int array [V]: the row of the checkpoint's matrices of each id,
            MISSING_ROW where they have none.
    """

    proto: bytes
    rows: np.ndarray


def read_table(path):
    """Returns the dict of a `vocab.json`, piece to id."""
    table = parse_json(read_bytes(path), path)
    if not all(type(row) is int and row >= 0 for row in table.values()):
        raise InputError(f"{path} must hold a JSON object, piece to id.")
    return table


def complete_table(table, size, path):
    """Gives a piece to each row of a matrix.

    Args:
        table: dict, piece to id.
        size: number of rows of the matrix.
        path: pathlib.Path of the file, for messages.

    Returns:
        A dict whose ids are 0 to `size` - 1, and a list of str, notes on it.

    Raises:
        InputError: an id has no row, or several pieces.
    """
    table = dict(table)
    # Tables of OPUS-MT lack ids whose pieces differed by a kind of space at
    # the end alone, and may have an empty piece.
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
    for row in unnamed:
        name = f"<{row}>"
        while name in table:
            name += "_"
        table[name] = row
    if not unnamed:
        return table, []
    return table, [
        f"{path.name} has no piece of {len(unnamed):,} of the model's "
        f"{size:,} ids"
    ]


def make_vocabulary(table, spm, unknown, begin, end, name):
    """Returns the Vocabulary of one side.

    Args:
        table: dict of `complete_table`.
        spm: bytes of the SentencePiece model of the side.
        unknown: id of an unknown piece in the table.
        begin: id that the decoder begins with; None where there is no row.
        end: id of the end.
        name: name of the file of the SentencePiece model, for messages.

    Raises:
        InputError: the SentencePiece model is damaged, or cannot be used.
    """
    model = _parse_model(spm, name)
    scored = {
        piece.piece: piece
        for piece in model.pieces
        if piece.type not in (_PIECE.CONTROL, _PIECE.UNKNOWN)
    }
    begin = MISSING_ROW if begin is None else begin
    special = [table.get(PADDING_ENTRY, MISSING_ROW), unknown, begin, end]
    listed = sorted(table, key=table.get)
    others = [row for row in range(len(table)) if row not in set(special)]
    _require_text(table, f"The table beside {name}")
    names = _rename_special([listed[row] for row in others])
    is_unigram = model.trainer_spec.model_type == _UNIGRAM
    if not is_unigram and not scored.keys() >= set(names):
        raise InputError(
            f"{name} is of the type BPE and lacks pieces of the table, which "
            "is possible with the type unigram only."
        )
    made = sentencepiece_model_pb2.ModelProto(
        trainer_spec=model.trainer_spec, normalizer_spec=model.normalizer_spec
    )
    if model.HasField("denormalizer_spec"):
        made.denormalizer_spec.CopyFrom(model.denormalizer_spec)
    _add_special(made, len(special) + len(others))
    control = {
        *SPECIAL_PIECES,
        *(each.piece for each in model.pieces if each.type == _PIECE.CONTROL),
    }
    for row, piece in zip(others, names):
        if piece in scored and not re.fullmatch(TAG, piece):
            made.pieces.append(scored[piece])
        else:
            is_control = listed[row] in control
            kind = _PIECE.CONTROL if is_control else _PIECE.UNUSED
            made.pieces.add(piece=piece, score=0.0, type=kind)
    made.pieces.extend(
        piece for piece in scored.values() if piece.piece not in table
    )
    return Vocabulary(
        made.SerializeToString(deterministic=True),
        np.array([*special, *others], np.int64),
    )


def _parse_model(content, name):
    model = sentencepiece_model_pb2.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        model.Clear()
    if not model.pieces:
        raise InputError(f"{name} is not a SentencePiece model.")
    _require_text([each.piece for each in model.pieces], name)
    return model


def _require_text(pieces, name):
    if has_crashing_piece(pieces):
        raise InputError(
            f"{name} has an empty piece, or one that begins with NUL; remove "
            "it."
        )


def _rename_special(pieces):
    """Returns the pieces with other names for those of special ids."""
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
