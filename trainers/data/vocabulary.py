"""Trains a joint SentencePiece vocabulary."""

import io
import itertools
import re
import signal
import sys

import numpy as np
import sentencepiece

from export.common import processes
from export.common.errors import InputError
from export.common.processes import StopSignals
from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from trainers.data.normalization import (
    DEFAULT_RULES,
    count_code_points,
    make_normalizer,
)

# Rarer characters occur too seldom to learn their translation.
_MIN_COUNT = 3
_SENTENCES = 10_000
# SentencePiece writes the first for white space (also within what U+FDFA and
# U+FDFB become) and the second for unknown text, and splits text at the third.
# None of them can be a character; sentences with the second are skipped.
_SPACE, _UNKNOWN, _BOUNDARY = "\u2581", "\u2585", "\x1f"
# SentencePiece skips longer sentences; UTF-8 has at most 4 bytes per character.
_MAX_BYTES = 4192
_PART = re.compile(f"(?s).{{1,{_MAX_BYTES // 4}}}(?= |$)|.{{1,1000}}")


def frequent_characters(sentences, limit, normalization=DEFAULT_RULES):
    """Returns at most `limit` frequent characters, for `train_vocabulary`.

    SentencePiece by itself drops the characters in the last 0.05 % of a text:
    most digits, brackets and capitals in everyday sentences. The result is a
    str of normalized characters that occur at least three times, most frequent
    first, without white space and reserved characters.
    """
    # Whole sentences, because letters and marks combine.
    normalizer = make_normalizer(normalization)
    sentences, counts = iter(sentences), count_code_points([])
    while part := list(itertools.islice(sentences, _SENTENCES)):
        counts += count_code_points(normalizer.normalize(part))
    # The tokenizer drops NUL, but normalization does not.
    for character in ("\0", _SPACE, _UNKNOWN, _BOUNDARY):
        counts[ord(character)] = 0
    # Ties: the lower code point first.
    order = np.argsort(-counts, kind="stable")[:limit]
    return "".join(chr(code) for code in order if counts[code] >= _MIN_COUNT)


def train_vocabulary(
    sentences, size, characters="", normalization=DEFAULT_RULES
):
    """Trains a byte-pair encoding; returns the bytes of its model.

    As in section 5.1, `sentences` are those of both languages. `size` includes
    the four special pieces. Each of `characters` gets a piece, however rare;
    others get one if they are within the first 99.95 % of the text.
    `normalization` is a name for `make_normalizer`. Raises InputError if the
    text cannot give so many or so few pieces.
    """
    model = io.BytesIO()
    iterator = _SentenceIterator(sentences)
    # SentencePiece's callbacks may swallow a KeyboardInterrupt.
    with StopSignals(iterator.stop) as signals:
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(iterator),
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
        except (RuntimeError, OSError, ValueError) as error:
            if iterator.error is None and not signals.received:
                raise InputError(_explain(str(error), size)) from error
    if signals.received == signal.SIGINT:
        raise KeyboardInterrupt
    if signals.received:
        sys.exit(128 + signals.received)
    if iterator.error is not None:
        raise iterator.error
    return model.getvalue()


class _SentenceIterator:
    """Splits long sentences, and stores errors hidden by SentencePiece."""

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
                sentence = sentence.replace(_UNKNOWN, " ")
                if len(sentence) * 4 > _MAX_BYTES < len(sentence.encode()):
                    # Training counts words only, so sentences may be split.
                    yield from _PART.findall(sentence)
                else:
                    yield sentence
        except BaseException as error:
            self.error = error
            raise


def _explain(message, size):
    """Translates a SentencePiece error message for users."""
    if "sentences_.empty" in message or "all_chars_count" in message:
        return (
            "No vocabulary can be trained on a text without any character; "
            "check the train split."
        )
    vocabulary = f"A vocabulary of {size} pieces is"
    if "as int" in message:
        return f"{vocabulary} too large for any text; lower vocabulary_size."
    highest = re.search(r"value <= (\d+)", message)
    if highest:
        return (
            f"{vocabulary} too large for this text; set vocabulary_size to "
            f"{highest[1]} or less."
        )
    smallest = re.search(r"\d+ vs (\d+)", message)
    if "smaller than required_chars" in message and smallest:
        return (
            f"{vocabulary} too small for this text, whose characters alone "
            f"need {smallest[1]}; raise vocabulary_size."
        )
    return f"No vocabulary of {size} pieces can be trained: {message}"
