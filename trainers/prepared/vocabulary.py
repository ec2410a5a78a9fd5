"""A joint SentencePiece vocabulary, trained on the training side alone."""

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
from trainers.prepared.normalization import (
    DEFAULT,
    count_code_points,
    make_normalizer,
)
from trainers.processes import StopSignals

# Fewer say nothing of how a character is translated.
_LEAST = 3
_SENTENCES = 10_000
# SentencePiece writes the first for white space, also within what U+FDFA and
# U+FDFB become, and the second for the unknown, and parts text at the third;
# it takes none as a character, and skips the sentences with the second.
_SPACE, _UNKNOWN, _BOUNDARY = "\u2581", "\u2585", "\x1f"
# SentencePiece skips longer sentences; UTF-8 has at most 4 bytes a character.
_MOST_BYTES = 4192
_PART = re.compile(f"(?s).{{1,{_MOST_BYTES // 4}}}(?= |$)|.{{1,1000}}")


def frequent_characters(sentences, most, normalization=DEFAULT):
    """Returns the characters that stand somewhere, the most frequent ones.

    SentencePiece alone leaves out those that make up the last 0.05 % of a
    text: in everyday sentences most digits, brackets and capitals.

    Args:
        sentences: iterable of str.
        most: how many characters are returned at most.
        normalization: name of the rules, as `make_normalizer` takes it.

    Returns:
        str of the characters, most frequent first, as they are after
        SentencePiece's normalisation; none that occurs less than three times,
        no white space and none that SentencePiece reserves.
    """
    # Whole sentences: letters and marks become one character.
    normalizer = make_normalizer(normalization)
    sentences, counts = iter(sentences), count_code_points([])
    while part := list(itertools.islice(sentences, _SENTENCES)):
        counts += count_code_points(normalizer.normalize(part))
    # NUL is dropped by the tokenizer, but not by normalisation.
    for character in ("\0", _SPACE, _UNKNOWN, _BOUNDARY):
        counts[ord(character)] = 0
    # Of equal counts, that of the lower code point first.
    order = np.argsort(-counts, kind="stable")[:most]
    return "".join(chr(code) for code in order if counts[code] >= _LEAST)


def train_vocabulary(sentences, size, characters="", normalization=DEFAULT):
    """Trains a byte-pair encoding (section 5.1).

    Args:
        sentences: iterable of str, both languages.
        size: V, number of pieces with the four special ones.
        characters: str of those that get a piece each, however rare; others
            get one where they are among the first 99.95 % of the text.
        normalization: name of the rules, as `make_normalizer` takes it.

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
            _train(guarded, model, size, characters, normalization)
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


def _train(sentences, model, size, characters, normalization):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=_trainable(sentences),
        normalizer=make_normalizer(normalization),
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


def _trainable(sentences):
    """Yields sentences so that SentencePiece skips none of them."""
    for sentence in sentences:
        sentence = sentence.replace(_UNKNOWN, " ")
        if len(sentence) * 4 > _MOST_BYTES < len(sentence.encode()):
            # Words are all that it learns of a sentence.
            yield from _PART.findall(sentence)
        else:
            yield sentence


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
    if "sentences_.empty" in message or "all_chars_count" in message:
        return (
            "No vocabulary can be trained on a text without any character; "
            "check the train split."
        )
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
