"""A joint SentencePiece vocabulary, trained on the training side alone."""

import collections
import io
import itertools
import re
import signal
import sys

import numpy as np
import sentencepiece

from export.errors import InputError
from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from trainers import processes
from trainers.processes import StopSignals

# Fewer say nothing of how a character is translated.
_LEAST = 3
_SENTENCES = 10_000
_CODE_POINTS = 0x110000
# SentencePiece writes the first for white space, also within what U+FDFA and
# U+FDFB become, and the second for the unknown; it takes neither as a
# character.
_RESERVED = "\u2581\u2585"


def frequent_characters(sentences, most):
    """Returns the characters that stand somewhere, the most frequent ones.

    SentencePiece alone leaves out those that make up the last 0.05 % of a
    text: in everyday sentences most digits, brackets and capitals.

    Args:
        sentences: iterable of str.
        most: how many characters are returned at most.

    Returns:
        str of the characters, most frequent first, as they are after
        SentencePiece's normalisation; none that occurs less than three times,
        no white space and none that SentencePiece reserves.
    """
    normaliser = sentencepiece.SentencePieceNormalizer(
        rule_name="nmt_nfkc", add_dummy_prefix=False
    )
    counts = _code_points(iter(sentences))
    found = collections.Counter()
    for code in np.flatnonzero(counts).tolist():
        for character in normaliser.normalize(chr(code)):
            found[character] += int(counts[code])
    for character in _RESERVED:
        del found[character]
    return "".join(
        character
        for character, count in found.most_common(most)
        if count >= _LEAST
    )


def _code_points(sentences):
    """Returns int64 [0x110000]: how often each code point occurs."""
    counts = np.zeros(_CODE_POINTS, np.int64)
    while part := list(itertools.islice(sentences, _SENTENCES)):
        text = "".join(part).encode("utf-32-le")
        codes = np.frombuffer(text, np.uint32)
        counts += np.bincount(codes, minlength=_CODE_POINTS)
    # The tokenizer drops it, normalisation does not.
    counts[0] = 0
    return counts


def train_vocabulary(sentences, size, characters=""):
    """Trains a byte-pair encoding (section 5.1).

    Args:
        sentences: iterable of str, both languages.
        size: V, number of pieces with the four special ones.
        characters: str of those that get a piece each, however rare; others
            get one where they are among the first 99.95 % of the text.

    Returns:
        bytes of the SentencePiece model.

    Raises:
        InputError: the text cannot give so many or so few pieces.
    """
    model = io.BytesIO()
    guarded = _Guarded(sentences)
    # An interrupt inside SentencePiece's callbacks may get lost there.
    with StopSignals(guarded.stop) as signals:
        try:
            _train(guarded, model, size, characters)
        except (RuntimeError, OSError, ValueError) as error:
            if guarded.error is None and not signals.received:
                raise InputError(_explain(str(error), size)) from error
    if signals.received == signal.SIGINT:
        raise KeyboardInterrupt
    if signals.received:
        sys.exit(128 + signals.received)
    if guarded.error is not None:
        raise guarded.error
    return model.getvalue()


def _train(sentences, model, size, characters):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        model_type="bpe",
        vocab_size=size,
        required_chars=characters,
        pad_id=PAD_ID,
        unk_id=UNKNOWN_ID,
        bos_id=BEGIN_ID,
        eos_id=END_ID,
        num_threads=processes.processor_count(),
        minloglevel=2,
    )


class _Guarded:
    """Sentences whose errors SentencePiece would turn into its own."""

    def __init__(self, sentences):
        self.error = None
        self._sentences = sentences
        self._stopped = False

    def stop(self):
        self._stopped = True

    def __iter__(self):
        try:
            for sentence in self._sentences:
                if self._stopped:
                    return
                yield sentence
        except BaseException as error:
            self.error = error
            raise


def _explain(message, size):
    if "as int" in message:
        return (
            f"A vocabulary of {size} pieces is too large for any text; lower "
            "vocabulary_size."
        )
    highest = re.search(r"value <= (\d+)", message)
    if highest:
        return (
            f"A vocabulary of {size} pieces is too large for this text; it "
            f"gives {highest[1]} at most: set vocabulary_size to that or less."
        )
    smallest = re.search(r"\d+ vs (\d+)", message)
    if "smaller than required_chars" in message and smallest:
        return (
            f"A vocabulary of {size} pieces is too small for this text, whose "
            f"characters alone need {smallest[1]}: raise vocabulary_size."
        )
    return f"No vocabulary of {size} pieces can be trained: {message}"
