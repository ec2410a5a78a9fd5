"""Which pieces a translation may have: those of given text.

export.check reads them too, in a process without TensorFlow.
"""

import itertools
import pathlib
import re

import numpy as np
import sentencepiece

from export.common.errors import InputError
from export.common.progress_bar import ProgressBar
from export.lines.files import read_lines

# Relative to an export's folder.
FILE = pathlib.PurePath("assets.extra", "target_pieces.txt")
_LINE = re.compile(r"(\d+)\t.*")
_CHUNK = 4096


def ids_of_text(tokenizer, paths):
    """Finds the pieces of text, and those that spell anything else.

    Args:
        tokenizer: Tokenizer of the target.
        paths: of files of sentences in the target language, one a line, each
            UTF-8 or that in gzip, with a name that ends in .gz.

    Returns:
        A sorted list of ids: of the pieces that the text is split into, and
        of all that are one character or one byte; special ids aside.

    Raises:
        InputError: a file cannot be read or is no such text, or there is
            nothing in them.
    """
    vocabulary = sentencepiece.SentencePieceProcessor(
        model_proto=tokenizer.proto
    )
    found = np.zeros(len(vocabulary), bool)
    for path in paths:
        with ProgressBar(f"Reading {path}", None, "lines") as bar:
            lines = read_lines(path)
            while chunk := [*itertools.islice(lines, _CHUNK)]:
                found[np.concatenate(tokenizer.encode(chunk))] = True
                bar.update(len(chunk))
    # Nothing but ends and what is no piece.
    found[[vocabulary.unk_id(), vocabulary.eos_id()]] = False
    if not found.any():
        raise InputError(
            f"There is no text in {', '.join(map(str, paths))}; files of "
            "--target_pieces hold sentences of the target language, one a line."
        )
    found[_spelling(vocabulary)] = True
    return np.flatnonzero(found[: tokenizer.vocabulary_size]).tolist()


def load_shortlist(search, tokenizer):
    """Returns a search whose target pieces are ids.

    Args:
        search: dict of what IdTranslator takes, but for `target_pieces`, paths
            as of `ids_of_text` where it is there.
        tokenizer: Tokenizer or TokenizerPair.

    Raises:
        InputError: as for `ids_of_text`.
    """
    if "target_pieces" not in search:
        return search
    ids = ids_of_text(tokenizer.target, search["target_pieces"])
    return search | {"target_pieces": ids}


def _spelling(vocabulary):
    """Returns the ids of the pieces of one character or one byte."""
    return [
        number
        for number in range(len(vocabulary))
        if vocabulary.IsByte(number) or len(vocabulary.IdToPiece(number)) == 1
    ]


def to_text(ids, proto):
    """Returns the content of an export's file: a line of each id and piece.

    Args:
        ids: list of int.
        proto: bytes of the SentencePiece model.
    """
    pieces = sentencepiece.SentencePieceProcessor(model_proto=proto)
    return "".join(
        # What ends a line would be none of the piece for its reader.
        f"{number}\t{pieces.IdToPiece(number)}".replace("\n", " ") + "\n"
        for number in ids
    )


def read_ids(version):
    """Returns the ids of the pieces that an export says: a list.

    Args:
        version: pathlib.Path of the version's folder.

    Raises:
        InputError: there is no such file, or it is not one.
    """
    path = version / FILE
    lines = [_LINE.fullmatch(line) for line in read_lines(path, True)]
    if not all(lines):
        raise InputError(
            f"Line {lines.index(None) + 1} of {path} is not an id and its "
            "piece; export the model again with export.saved_model."
        )
    return [int(line[1]) for line in lines]
