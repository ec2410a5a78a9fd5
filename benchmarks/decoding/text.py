"""The sentences that every system translates."""

import gzip
import pathlib

import sentencepiece

from export.command import InputError


class Pieces:
    """A SentencePiece vocabulary, without TensorFlow.

    Args:
        path: of a model directory.

    Raises:
        InputError: there is no vocabulary.
    """

    def __init__(self, path):
        vocabulary = pathlib.Path(path) / "vocabulary.model"
        if not vocabulary.is_file():
            raise InputError(
                f"There is no {vocabulary}; --model_dir must be a model "
                "directory, as trainers.wmt writes it."
            )
        self._processor = sentencepiece.SentencePieceProcessor(
            model_file=str(vocabulary)
        )

    def ids(self, texts):
        """Returns a list of ids for each text, the end id last."""
        return self._processor.encode(texts, add_eos=True)

    def pieces(self, texts):
        """Returns a list of pieces for each text, without an end."""
        return self._processor.encode(texts, out_type=str)

    def text(self, rows):
        """Joins lists of ids or of pieces to text."""
        return [self._processor.decode(row) for row in rows]

    def lengths(self, texts):
        """Returns how many pieces each text has, the end id counted."""
        return [len(ids) for ids in self.ids(texts)]


def read_sentences(path, count, pieces):
    """Returns sentences from all over a file, from short to long.

    Args:
        path: text file, a sentence a line; .gz is unpacked.
        count: how many.
        pieces: Pieces, for the lengths.

    Returns:
        List of str, and list of their lengths.

    Raises:
        InputError: no such file, or too few lines that are not blank.
    """
    try:
        content = pathlib.Path(path).read_bytes()
        if str(path).endswith(".gz"):
            content = gzip.decompress(content)
        lines = content.decode("utf-8").splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(
            f"Cannot use {path} as sentences ({error}); it must be UTF-8 "
            "text, a sentence a line."
        ) from error
    lines = [line.strip() for line in lines if line.strip()]
    if len(lines) < count:
        raise InputError(
            f"{path} has {len(lines)} sentences; {count} are asked for by "
            "--sentences."
        )
    chosen = [lines[number * len(lines) // count] for number in range(count)]
    lengths = pieces.lengths(chosen)
    order = sorted(range(count), key=lengths.__getitem__)
    return [chosen[i] for i in order], [lengths[i] for i in order]
