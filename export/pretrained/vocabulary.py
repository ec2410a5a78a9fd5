"""Converts the vocabularies of Marian's models.

A Marian model has two SentencePiece models, which split text into pieces, and
vocabs, dicts from piece to id. They become one SentencePiece model per side:
the four special pieces, then the vocab's pieces in order of their ids, with
their SentencePiece scores, or marked as unused, so that they never occur in
tokenized text. SentencePiece's other pieces follow after the V ids of the model
(`trainer_spec.vocab_size`), so that text is split as before, and count as
unknown.
"""

import pathlib
import re
import typing
from collections.abc import Collection, Iterable, Sequence

from google.protobuf.message import DecodeError

from export.common.errors import InputError
from export.pretrained.config_files import (
    HF_TOKENIZER_FIELDS,
    Fields,
    read_bytes,
    read_fields,
    read_json,
    validate_fields,
    wrong_value_error,
)
from export.tokenizers import sentencepiece_model
from export.tokenizers.python_tokenizers import TAG, has_crashing_piece
from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID

_TYPE = sentencepiece_model.ModelProto.SentencePiece.Type
_UNIGRAM = sentencepiece_model.TrainerSpec.UNIGRAM
# Names of the special ids, in order.
SPECIAL_PIECES = _PADDING, _UNKNOWN, _, _END = "<pad>", "<unk>", "<s>", "</s>"
# Piece in a vocab for this package's padding; see `hugging_face_writer`.
PADDING_ENTRY = "<blank>"
# In place of an id that the checkpoint lacks.
MISSING_ID = -1
_CONFIG_FILE, _SPECIAL_FILE = "tokenizer_config.json", "special_tokens_map.json"
_ADDED_FILE = "added_tokens.json"


class Vocabulary(typing.NamedTuple):
    """The vocabulary of one side."""

    # A SentencePiece model.
    proto: bytes
    # For each of the V ids the checkpoint's, or MISSING_ID.
    checkpoint_ids: list[int]


def read_vocabularies(
    folder: pathlib.Path, sizes: Sequence[int], begin_id: int, end_id: int
) -> tuple[list[Vocabulary], tuple[str | None, ...], list[str]]:
    """Reads the files of `MarianTokenizer.save_pretrained`.

    `sizes` are the numbers of ids of source and target in the checkpoint,
    `begin_id` and `end_id` begin and end an output. Returns the two
    Vocabularies, the codes of the languages, None where missing, and warnings.
    """
    fields = read_fields(folder / _CONFIG_FILE, missing_ok=True)
    target_path = folder / "target_vocab.json"
    is_separate = fields.get("separate_vocabs", target_path.exists())
    codes = fields.get("source_lang"), fields.get("target_lang")
    languages = tuple(code if isinstance(code, str) else None for code in codes)
    added, warnings = read_added_tokens(folder)
    paths = [folder / "vocab.json"] * 2
    vocabs = [read_vocab(paths[0]) | added] * 2
    begin_ids: list[typing.Any] = [begin_id, begin_id]
    if is_separate:
        paths[1], vocabs[1] = target_path, read_vocab(target_path)
        begin_ids[0] = vocabs[0].get(_PADDING)
    if begin_id not in vocabs[1].values():
        raise InputError(
            f"{paths[1]} must have a piece with the id {begin_id}, the "
            "decoder_start_token_id."
        )
    if vocabs[1].get(_END) != end_id:
        value, expected = vocabs[1].get(_END), f"eos_token_id, {end_id},"
        raise wrong_value_error(paths[1], _END, value, expected)
    vocabularies = []
    for side, path, vocab, size, begin_id in zip(
        ("source", "target"), paths, vocabs, sizes, begin_ids
    ):
        special_ids = vocab.get(_UNKNOWN), begin_id, vocab.get(_END)
        if None in special_ids[::2] or len({*special_ids}) < 3:
            roles = "<unk>, the begin and the end"
            raise wrong_value_error(path, roles, special_ids, "three ids")
        vocab, more_warnings = complete_vocab(vocab, size, path)
        warnings += more_warnings
        path = folder / f"{side}.spm"
        vocabularies.append(
            make_vocabulary(vocab, read_bytes(path), *special_ids, path)  # type: ignore[arg-type]
        )
    return vocabularies, languages, warnings


def read_added_tokens(
    folder: pathlib.Path,
    supported_fields: Fields = HF_TOKENIZER_FIELDS,
    known: Collection[str] = (_END, _UNKNOWN, _PADDING),
) -> tuple[dict[str, int], list[str]]:
    """Returns the ids of the added tokens, and warnings.

    The fields of the tokenizer's files must be among the supported ones;
    `known` are tokens without a warning.
    """
    fields = read_fields(folder / _ADDED_FILE, missing_ok=True)
    entries = [(_ADDED_FILE, token, fields[token]) for token in fields]
    warnings, added = [], {}
    for file in (_CONFIG_FILE, _SPECIAL_FILE):
        fields = read_fields(folder / file, missing_ok=True)
        fields = {name: _token_text(value) for name, value in fields.items()}
        warnings += validate_fields(fields, supported_fields, file)
        tokens = fields.get("added_tokens_decoder", {})
        if not isinstance(tokens, dict):
            name, expected = "added_tokens_decoder", "ids and tokens"
            raise wrong_value_error(file, name, tokens, expected)
        entries += [(file, _token_text(tokens[i]), i) for i in tokens]
    for file, token, token_id in entries:
        is_text = isinstance(token, str) and token
        if not is_text or not re.fullmatch("[0-9]{1,8}", str(token_id)):
            value, expected = [token, token_id], "a text and its id"
            name = "an added token (added_tokens_decoder)"
            raise wrong_value_error(file, name, value, expected)
        added[token] = int(token_id)
    tokens = added.keys() - {*known}
    if tokens:
        warnings.append(
            f"added tokens, such as {min(tokens)}, are recognized in a source "
            "only as a leading tag, such as >>fra<<, and special ones are not "
            "removed from a translation"
        )
    return added, warnings


def _token_text(token):
    """Returns the text of a token, which may be an object."""
    is_object = isinstance(token, dict) and "content" in token
    return token["content"] if is_object else token


def read_vocab(path: pathlib.Path) -> dict[str, int]:
    """Returns the dict of a `vocab.json`, piece to id."""
    vocab = read_json(path)
    for piece, piece_id in vocab.items():
        if type(piece_id) is not int or piece_id < 0:
            raise wrong_value_error(path, piece, piece_id, "an id")
    return vocab


def complete_vocab(
    vocab: dict[str, int], size: int, path: pathlib.Path
) -> tuple[dict[str, int], list[str]]:
    """Returns a vocab with pieces for all ids below `size`, and warnings.

    Raises InputError if an id exceeds the size, or has several pieces.
    """
    # Vocabs of OPUS-MT lack ids whose pieces differed only in a trailing space
    # character, and may have an empty piece.
    vocab = {piece: vocab[piece] for piece in vocab if piece}
    last = max(vocab, key=vocab.get, default="")  # type: ignore[arg-type]
    if vocab.get(last, 0) >= size:
        # Their names in Hugging Face's and in Marian's files.
        expected = f"an id below {size}, vocab_size or dim-vocabs,"
        raise wrong_value_error(path, last, vocab[last], expected)
    unnamed = sorted({*range(size)} - {*vocab.values()})
    if size - len(unnamed) != len(vocab):
        raise InputError(
            f"{path} and the added tokens give one id to several pieces."
        )
    for unnamed_id in unnamed:
        name = f"<{unnamed_id}>"
        while name in vocab:
            name += "_"
        vocab[name] = unnamed_id
    count = f"{len(unnamed):,} of the model's {size:,} ids"
    return vocab, [f"{path.name} has no piece of {count}"] if unnamed else []


def make_vocabulary(
    vocab: dict[str, int],
    spm: bytes,
    unknown_id: int,
    begin_id: int | None,
    end_id: int,
    path: pathlib.Path,
    padding_entry: str = PADDING_ENTRY,
    control: Iterable[str] = (),
) -> Vocabulary:
    """Returns the Vocabulary of one side.

    `vocab` is a dict of `complete_vocab`, `spm` the bytes of the side's
    SentencePiece model and `path` its file, for messages. The ids are in the
    vocab; `begin_id` is None if the checkpoint lacks it. `padding_entry` is the
    vocab's piece for padding, if any, and `control` has its pieces that are
    never text.
    """
    model = _parse_model(spm, vocab, path)
    text_pieces = {
        p.piece: p
        for p in model.pieces
        if p.type not in (_TYPE.CONTROL, _TYPE.UNKNOWN)
    }
    begin_id = MISSING_ID if begin_id is None else begin_id
    padding_id = vocab.get(padding_entry, MISSING_ID)
    special_ids = [padding_id, unknown_id, begin_id, end_id]
    names = sorted(vocab, key=vocab.get)  # type: ignore[arg-type]
    other_ids = [i for i in range(len(vocab)) if i not in special_ids]
    new_names = _rename_special([names[i] for i in other_ids])
    is_unigram = model.trainer_spec.model_type == _UNIGRAM
    control = {*control, *SPECIAL_PIECES}
    control.update(p.piece for p in model.pieces if p.type == _TYPE.CONTROL)
    unknown = {
        new for new, i in zip(new_names, other_ids) if names[i] not in control
    } - text_pieces.keys()
    if not is_unigram and unknown:
        raise InputError(
            f"{path} lacks pieces of the vocab, which only a SentencePiece "
            "model of the type unigram may."
        )
    new_model = sentencepiece_model.ModelProto(
        trainer_spec=model.trainer_spec, normalizer_spec=model.normalizer_spec
    )
    if model.HasField("denormalizer_spec"):
        new_model.denormalizer_spec.CopyFrom(model.denormalizer_spec)
    checkpoint_ids = [*special_ids, *other_ids]
    _add_special_pieces(new_model, len(checkpoint_ids))
    for checkpoint_id, name in zip(other_ids, new_names):
        if name in text_pieces and not re.fullmatch(TAG, name):
            new_model.pieces.append(text_pieces[name])
        else:
            is_control = names[checkpoint_id] in control
            piece_type = _TYPE.CONTROL if is_control else _TYPE.UNUSED
            new_model.pieces.add(piece=name, score=0.0, type=piece_type)
    new_model.pieces.extend(
        piece for name, piece in text_pieces.items() if name not in vocab
    )
    proto = new_model.SerializeToString(deterministic=True)
    return Vocabulary(proto, checkpoint_ids)


def read_pieces(spm: bytes, path: pathlib.Path) -> list[str]:
    """Returns the pieces of a SentencePiece model but its control pieces."""
    control = _TYPE.CONTROL, _TYPE.UNKNOWN
    pieces = _parse_model(spm, {}, path).pieces
    return [each.piece for each in pieces if each.type not in control]


def read_piece_ids(spm: bytes, path: pathlib.Path) -> dict[str, int]:
    """Returns the dict of a SentencePiece model, piece to its own id."""
    pieces = _parse_model(spm, {}, path).pieces
    return {each.piece: number for number, each in enumerate(pieces)}


def _parse_model(spm, vocab, path):
    """Returns the ModelProto, if neither it nor the vocab would crash."""
    model = sentencepiece_model.ModelProto()
    try:
        model.ParseFromString(spm)
    except DecodeError:
        model.Clear()
    if not model.pieces:
        raise InputError(f"{path} is not a SentencePiece model.")
    if has_crashing_piece([*vocab, *(each.piece for each in model.pieces)]):
        raise InputError(
            f"{path}, or its vocab, has a piece that is empty or begins with "
            "NUL; remove it."
        )
    return model


def _rename_special(pieces):
    """Appends "_" to pieces that are named like special ones."""
    taken = {*pieces, *SPECIAL_PIECES}
    new_names = []
    for piece in pieces:
        if piece in SPECIAL_PIECES:
            while piece in taken:
                piece = f"{piece}_"
            taken.add(piece)
        new_names.append(piece)
    return new_names


def _add_special_pieces(model, vocabulary_size):
    for piece in SPECIAL_PIECES:
        is_unknown = piece == _UNKNOWN
        piece_type = _TYPE.UNKNOWN if is_unknown else _TYPE.CONTROL
        model.pieces.add(piece=piece, score=0.0, type=piece_type)
    spec = model.trainer_spec
    spec.vocab_size = vocabulary_size
    spec.pad_id, spec.unk_id = PAD_ID, UNKNOWN_ID
    spec.bos_id, spec.eos_id = BEGIN_ID, END_ID
    spec.pad_piece, spec.unk_piece = SPECIAL_PIECES[:2]
    spec.bos_piece, spec.eos_piece = SPECIAL_PIECES[2:]
