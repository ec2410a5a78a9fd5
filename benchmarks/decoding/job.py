"""What every system is told to do: translate sentences with a model.

It imports no framework: one of the workers must not.
"""

import dataclasses
import functools
import gzip
import pathlib

import sentencepiece

from export.errors import InputError


@dataclasses.dataclass(frozen=True)
class DecodeBatch:
    """Sentences that are translated together.

    Attributes:
        texts: list of str.
        source_lengths: of each in pieces, the end id counted.
        target_lengths: the same of their translations; empty as long as
            nobody has translated them.
    """

    texts: list[str]
    source_lengths: list[int]
    target_lengths: list[int]


@dataclasses.dataclass(frozen=True)
class DecodeJob:
    """The model, the sentences and the machine, the same for every system.

    Attributes:
        model: model directory whose configuration has this job's beam.
        prepared: what the system's `prepare` made of it.
        config: fields of the configuration.
        precision: "float32" or "bfloat16".
        device: "cpu" or "gpu".
        cores: threads to use on a CPU.
        sentences: list of str, from short to long.
        source_lengths: of each in pieces, the end id counted.
        target_lengths: the same of their translations, or empty.
    """

    model: str
    prepared: str
    config: dict
    precision: str
    device: str
    cores: int
    sentences: list[str]
    source_lengths: list[int]
    target_lengths: list[int] = dataclasses.field(default_factory=list)

    def batches(self, size):
        """Returns the sentences in DecodeBatches of `size`, in order."""
        return [
            DecodeBatch(
                self.sentences[start : start + size],
                self.source_lengths[start : start + size],
                self.target_lengths[start : start + size],
            )
            for start in range(0, len(self.sentences), size)
        ]

    def warm_up(self, peer, size):
        """Returns text and score of each sentence, in batches of `size`."""
        translate = getattr(peer, "translate_with_scores", peer.translate)
        return [
            pair for batch in self.batches(size) for pair in translate(batch)
        ]

    def calls(self, peer, size):
        """Returns calls that translate all: one a batch, or one for all."""
        batches = self.batches(size)
        if hasattr(peer, "translate_all"):
            return [functools.partial(peer.translate_all, batches)]
        return [functools.partial(peer.translate, each) for each in batches]


class AskedJob(DecodeJob):
    """A DecodeJob whose sentences come with each question."""

    def warm_up(self, peer, texts):
        """Returns text and score of each of a list of str, as one batch."""
        return peer.translate(DecodeBatch(texts, [], []))


class SentencePieces:
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
        pieces: SentencePieces, for the lengths.

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
