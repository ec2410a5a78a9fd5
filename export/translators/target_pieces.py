"""Selects the target tokens of given text for a fixed output vocabulary."""

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


def collect_ids(tokenizer, paths):
    """Returns the sorted ids of the tokens in text files.

    Tokens of one character or one byte are always included, so that any text
    can be spelled; special ids never. The files have a sentence a line, plain
    or .gz. Raises InputError if one cannot be read or there is no text.
    """
    vocabulary = sentencepiece.SentencePieceProcessor(
        model_proto=tokenizer.proto
    )
    is_used = np.zeros(len(vocabulary), bool)
    for path in paths:
        with ProgressBar(f"Reading {path}", None, "lines") as bar:
            lines = read_lines(path)
            while chunk := [*itertools.islice(lines, _CHUNK)]:
                is_used[np.concatenate(tokenizer.encode(chunk))] = True
                bar.update(len(chunk))
    is_used[[vocabulary.unk_id(), vocabulary.eos_id()]] = False
    if not is_used.any():
        raise InputError(
            f"There is no text in {', '.join(map(str, paths))}; files of "
            "--target_pieces hold sentences of the target language, one a line."
        )
    for number in range(len(vocabulary)):
        if vocabulary.IsByte(number) or len(vocabulary.IdToPiece(number)) == 1:
            is_used[number] = True
    return np.flatnonzero(is_used[: tokenizer.vocabulary_size]).tolist()


def format_ids(ids, proto):
    """Returns the text of an export's file: one line for each id and token."""
    vocabulary = sentencepiece.SentencePieceProcessor(model_proto=proto)
    return "".join(
        # A line break in a token would end the line.
        f"{number}\t{vocabulary.IdToPiece(number)}".replace("\n", " ") + "\n"
        for number in ids
    )


def read_ids(version):
    """Returns the ids in the file of a version; InputError if not valid."""
    path = version / FILE
    lines = [_LINE.fullmatch(line) for line in read_lines(path, True)]
    if not all(lines):
        raise InputError(
            f"Line {lines.index(None) + 1} of {path} is not an id and its "
            "token; export the model again with export.saved_model."
        )
    return [int(line[1]) for line in lines]
