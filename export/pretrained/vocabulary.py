"""Converts the vocabularies of Marian's models.

A Marian model has two SentencePiece models, which split text into pieces, and a
table from piece to id. They become one SentencePiece model for each side: the
four special pieces, then those of the table in its order, each with the score
of the side's SentencePiece model. A piece that this model lacks is marked as
unused, so that it never occurs in tokenized text. Pieces that the table lacks
follow after the V ids of the model (`trainer_spec.vocab_size`) and count as
unknown; without them text would be split differently.
"""

import re
import typing

import numpy as np
from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2

from export.common.errors import InputError
from export.pretrained.config_files import (
    TOKENIZER,
    check_fields,
    read_bytes,
    read_fields,
    read_json,
    wrong_value_error,
)
from export.tokenizers.python_tokenizers import TAG, has_crashing_piece
from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID

_PIECE = sentencepiece_model_pb2.ModelProto.SentencePiece
_UNIGRAM = sentencepiece_model_pb2.TrainerSpec.UNIGRAM
# Names of the special ids, in order.
SPECIAL_PIECES = _PADDING, _UNKNOWN, _, _END = "<pad>", "<unk>", "<s>", "</s>"
# Entry of a table for this package's padding; see `hugging_face_writer`.
PADDING_ENTRY = "<blank>"
# Stands for the row of an id that the checkpoint lacks.
MISSING_ROW = -1
_CONFIG, _SPECIAL = "tokenizer_config.json", "special_tokens_map.json"
_ADDED = "added_tokens.json"


class Vocabulary(typing.NamedTuple):
    """The vocabulary of one side."""

    # A SentencePiece model.
    proto: bytes
    # int [V]: for each id the row of the checkpoint's matrices, or MISSING_ROW.
    rows: np.ndarray


def read_vocabularies(folder, sizes, begin, end):
    """Reads the files of `MarianTokenizer.save_pretrained`.

    `sizes` are the numbers of rows of the embeddings of source and target,
    `begin` and `end` the ids that begin and end an output. Returns the two
    Vocabularies, the codes of the languages, None where missing, and notes.
    """
    fields = read_fields(folder / _CONFIG, is_optional=True)
    target_path = folder / "target_vocab.json"
    is_separate = fields.get("separate_vocabs", target_path.exists())
    codes = fields.get("source_lang"), fields.get("target_lang")
    languages = tuple(code if isinstance(code, str) else None for code in codes)
    added, notes = _read_added_tokens(folder)
    paths = [folder / "vocab.json"] * 2
    tables = [read_table(paths[0]) | added] * 2
    begins = [begin, begin]
    if is_separate:
        paths[1], tables[1] = target_path, read_table(target_path)
        begins[0] = tables[0].get(_PADDING)
    if begin not in tables[1].values():
        expected = "the id of a piece"
        raise wrong_value_error(
            paths[1], "decoder_start_token_id", begin, expected
        )
    if tables[1].get(_END) != end:
        expected = f"eos_token_id, {end},"
        raise wrong_value_error(paths[1], _END, tables[1].get(_END), expected)
    vocabularies = []
    for side, path, table, size, first in zip(
        ("source", "target"), paths, tables, sizes, begins
    ):
        special = table.get(_UNKNOWN), first, table.get(_END)
        if None in special[::2] or len({*special}) < 3:
            roles = "<unk>, the begin and the end"
            raise wrong_value_error(path, roles, special, "three ids")
        table, more_notes = complete_table(table, size, path)
        notes += more_notes
        spm = folder / f"{side}.spm"
        vocabularies.append(
            make_vocabulary(table, read_bytes(spm), *special, str(spm))
        )
    return vocabularies, languages, notes


def _read_added_tokens(folder):
    """Returns the dict of added tokens, token to id, and notes."""
    pairs, notes = {_ADDED: read_fields(folder / _ADDED, True).items()}, []
    for file in (_CONFIG, _SPECIAL):
        fields = read_fields(folder / file, is_optional=True)
        fields = {name: _content(value) for name, value in fields.items()}
        notes += check_fields(fields, TOKENIZER, file)
        rows = fields.get("added_tokens_decoder", {})
        if not isinstance(rows, dict):
            name, expected = "added_tokens_decoder", "ids and tokens"
            raise wrong_value_error(file, name, rows, expected)
        pairs[file] = [(_content(token), row) for row, token in rows.items()]
    added = {}
    for file, tokens in pairs.items():
        for token, row in tokens:
            is_text = isinstance(token, str) and token
            if not is_text or not re.fullmatch("[0-9]{1,8}", str(row)):
                expected = "texts and ids"
                raise wrong_value_error(
                    file, "added tokens", [token, row], expected
                )
            added[token] = int(row)
    tokens = added.keys() - {_END, _UNKNOWN, _PADDING}
    if tokens:
        notes.append(
            f"added tokens, such as {min(tokens)}, are recognized in a source "
            "only as a leading tag, such as >>fra<<, and special ones are not "
            "removed from a translation"
        )
    return added, notes


def _content(token):
    """Returns the text of a token, which may be an object."""
    is_object = isinstance(token, dict) and "content" in token
    return token["content"] if is_object else token


def read_table(path):
    """Returns the dict of a `vocab.json`, piece to id."""
    table = read_json(path)
    for piece, row in table.items():
        if type(row) is not int or row < 0:
            raise wrong_value_error(path, piece, row, "an id")
    return table


def complete_table(table, size, path):
    """Returns a piece-to-id table with all ids below `size`, and notes.

    InputError if an id exceeds the size, or has several pieces.
    """
    table = dict(table)
    # Tables of OPUS-MT lack ids whose pieces differed only in a trailing space
    # character, and may have an empty piece.
    table.pop("", None)
    piece = max(table, key=table.get, default="")
    if table.get(piece, 0) >= size:
        expected = f"an id below {size}, the rows of the embeddings,"
        raise wrong_value_error(path, piece, table[piece], expected)
    unnamed = sorted(set(range(size)) - set(table.values()))
    if size - len(unnamed) != len(table):
        raise InputError(f"{path} gives one id to several pieces.")
    for row in unnamed:
        name = f"<{row}>"
        while name in table:
            name += "_"
        table[name] = row
    count = f"{len(unnamed):,} of the model's {size:,} ids"
    return table, [f"{path.name} has no piece of {count}"] if unnamed else []


def make_vocabulary(table, spm, unknown, begin, end, name):
    """Returns the Vocabulary of one side.

    `table` is a dict of `complete_table`, `spm` the bytes of the side's
    SentencePiece model and `name` its file, for messages. `unknown`, `begin`
    and `end` are ids of the table; `begin` is None if it has no row.
    """
    model = sentencepiece_model_pb2.ModelProto()
    try:
        model.ParseFromString(spm)
    except DecodeError:
        model.Clear()
    if not model.pieces:
        raise InputError(f"{name} is not a SentencePiece model.")
    for pieces in (table, [each.piece for each in model.pieces]):
        if has_crashing_piece(pieces):
            raise InputError(
                f"{name}, or its table, has a piece that is empty or begins "
                "with NUL; remove it."
            )
    pieces_by_name = {
        piece.piece: piece
        for piece in model.pieces
        if piece.type not in (_PIECE.CONTROL, _PIECE.UNKNOWN)
    }
    begin = MISSING_ROW if begin is None else begin
    special = [table.get(PADDING_ENTRY, MISSING_ROW), unknown, begin, end]
    names = sorted(table, key=table.get)
    other_rows = [row for row in range(len(table)) if row not in set(special)]
    new_names = _rename_special([names[row] for row in other_rows])
    is_unigram = model.trainer_spec.model_type == _UNIGRAM
    if not is_unigram and not pieces_by_name.keys() >= set(new_names):
        raise InputError(
            f"{name} lacks pieces of the table, which only a SentencePiece "
            "model of the type unigram may."
        )
    new_model = sentencepiece_model_pb2.ModelProto(
        trainer_spec=model.trainer_spec, normalizer_spec=model.normalizer_spec
    )
    if model.HasField("denormalizer_spec"):
        new_model.denormalizer_spec.CopyFrom(model.denormalizer_spec)
    _add_special(new_model, len(special) + len(other_rows))
    control = {
        *SPECIAL_PIECES,
        *(each.piece for each in model.pieces if each.type == _PIECE.CONTROL),
    }
    for row, piece in zip(other_rows, new_names):
        if piece in pieces_by_name and not re.fullmatch(TAG, piece):
            new_model.pieces.append(pieces_by_name[piece])
        else:
            is_control = names[row] in control
            kind = _PIECE.CONTROL if is_control else _PIECE.UNUSED
            new_model.pieces.add(piece=piece, score=0.0, type=kind)
    new_model.pieces.extend(
        piece for piece in pieces_by_name.values() if piece.piece not in table
    )
    return Vocabulary(
        new_model.SerializeToString(deterministic=True),
        np.array([*special, *other_rows], np.int64),
    )


def _rename_special(pieces):
    taken = {*pieces, *SPECIAL_PIECES}
    new_names = []
    for piece in pieces:
        if piece in SPECIAL_PIECES:
            while piece in taken:
                piece = f"{piece}_"
            taken.add(piece)
        new_names.append(piece)
    return new_names


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
