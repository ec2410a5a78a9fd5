"""A joint SentencePiece vocabulary, trained on the training side alone."""

import io
import re
import signal
import sys

import sentencepiece

from export.command import InputError
from keras_transformer.special_ids import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from trainers import processors
from trainers.stop_signals import StopSignals


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
        num_threads=processors.count(),
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
