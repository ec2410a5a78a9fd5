"""Unicode normalization rules, and training of a SentencePiece vocabulary.

A SentencePiece model contains its rules, so training, translation and exports
normalize text in the same way.
"""

import collections
import functools
import io
import itertools
import re
import signal
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import sentencepiece

from export.common import processes
from export.common.errors import InputError
from export.common.processes import StopSignals
from export.lines.files import clean_line
from export.tokenizers import sentencepiece_model
from export.tokenizers.tags import SPACE
from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID

NFKC_RULES = "nmt_nfkc"
NFC_RULES = "nmt_nfc"
_OTHER_RULES = ("nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")
NORMALIZATIONS = ("auto", NFKC_RULES, NFC_RULES, *_OTHER_RULES)

# Share of a side's characters that the rules change: 0.02 % in European text
# ("…", "²"), over 1 % in Persian (ZWNJ), Thai (sara am), Chinese (，！？).
_MAX_CHANGED_SHARE = 0.002
_NUM_CODE_POINTS = 0x110000
_NUM_EXAMPLES = 8
_BYTE_ORDER_MARK = "\ufeff"
# Printable text in NFKC that all rules change: double spaces, and characters
# that become spaces.
_REPLACED = re.compile("  |[\u2581\ufffd]")

# Rarer characters occur too seldom to learn their translation.
_MIN_CHARACTER_COUNT = 3
_BATCH_SENTENCES = 10_000
# SentencePiece writes the first for unknown text and splits text at the second,
# so that like SPACE they cannot be characters.
_UNKNOWN_MARK, _BOUNDARY = "\u2585", "\x1f"
# SentencePiece skips longer sentences; UTF-8 has at most 4 bytes per character.
_MAX_BYTES = 4192
_SEGMENT = re.compile(f"(?s).{{1,{_MAX_BYTES // 4}}}(?= |$)|.{{1,1000}}")


@functools.cache
def make_normalizer(name: str) -> sentencepiece.SentencePieceNormalizer:
    """Returns the SentencePieceNormalizer for a name other than "auto"."""
    # Otherwise SentencePiece logs the size of the rules, or their absence.
    sentencepiece.set_min_log_level(2)
    if name != NFC_RULES:
        return sentencepiece.SentencePieceNormalizer(rule_name=name)
    rules = sentencepiece.SentencePieceNormalizer(norm_map=_canonical_rules())
    spec = sentencepiece_model.NormalizerSpec.FromString(
        rules.serialized_normalizer_spec()
    )
    spec.name = name
    return sentencepiece.SentencePieceNormalizer(normalizer_spec=spec)


def _canonical_rules():
    """Returns the white space rules of nmt_nfkc, and NFC composition."""
    rules = {}
    for text, result in make_normalizer(NFKC_RULES).decompile():
        # Joiners and direction marks belong to the spelling of words.
        is_format = unicodedata.category(text[0]) == "Cf"
        is_space = not result.strip() and not is_format
        if is_space or text == _BYTE_ORDER_MARK:
            rules[text] = result
            continue
        composed = unicodedata.normalize("NFC", text)
        for spelling in (text, unicodedata.normalize("NFD", text)):
            if spelling != composed:
                rules[spelling] = composed
    return list(rules.items())


def make_text_normalizer(
    name: str | None, model: bytes | None = None
) -> Callable[[str], str]:
    """Returns a function of a str that returns it as a vocabulary sees it.

    The rules are those of a serialized SentencePiece model, or of a name.
    """
    if model is None:
        rules = make_normalizer(name)
    else:
        name = normalization_name(model)
        rules = sentencepiece.SentencePieceNormalizer(model_proto=model)
    # These rules change no such text, and most text is such.
    is_fast = name in (NFKC_RULES, NFC_RULES, "nfkc", "identity")

    def normalize(text):
        if (
            is_fast
            and text.isprintable()
            and unicodedata.is_normalized("NFKC", text)
            and not _REPLACED.search(text)
        ):
            return text
        return rules.normalize(text).replace(SPACE, " ").strip()

    return normalize


def normalization_name(model: bytes) -> str:
    """Returns the name of the rules in a serialized SentencePiece model."""
    proto = sentencepiece_model.ModelProto.FromString(model)
    return proto.normalizer_spec.name


def count_code_points(texts: Iterable[str]) -> np.ndarray:
    """Counts the code points of texts, as int64 [0x110000]."""
    text = "".join(texts).encode("utf-32-le")
    codes = np.frombuffer(text, np.uint32)
    return np.bincount(codes, minlength=_NUM_CODE_POINTS)


def choose_normalization(name: str, counts: Iterable[np.ndarray]) -> str:
    """Returns the name of the rules for training a vocabulary.

    "auto" means nmt_nfkc, or nmt_nfc if nmt_nfkc would change over 0.2 % of the
    characters of a side. `counts` has the `count_code_points` of each side.
    """
    if name != "auto":
        return name
    normalizer = make_normalizer(NFKC_RULES)
    shares = [_measure_change(side, normalizer)[0] for side in counts]
    return NFKC_RULES if max(shares) <= _MAX_CHANGED_SHARE else NFC_RULES


def describe_normalization(
    counts: Iterable[np.ndarray], models: Sequence[bytes]
) -> str:
    """Returns a line with the share of changed characters on each side."""
    changes = []
    for side, side_counts, model in zip(("source", "target"), counts, models):
        normalizer = sentencepiece.SentencePieceNormalizer(model_proto=model)
        share, examples = _measure_change(side_counts, normalizer)
        shown = f" ({format_characters(examples)})" if examples else ""
        changes.append(f"{share:.2%} of the {side} characters{shown}")
    name = normalization_name(models[0])
    return f"Normalization {name} changes {', '.join(changes)}."


def _measure_change(counts, normalizer):
    """Returns the share of changed characters, and the most frequent ones."""
    total, changed = 0, collections.Counter()
    for code in np.flatnonzero(counts).tolist():
        character = chr(code)
        if character.isspace():
            continue
        total += int(counts[code])
        canonical = unicodedata.normalize("NFC", character)
        result = normalizer.normalize(character).strip(SPACE)
        if result not in (character, canonical):
            changed[character] = int(counts[code])
    examples = "".join(c for c, _ in changed.most_common(_NUM_EXAMPLES))
    return changed.total() / max(total, 1), examples


def format_characters(characters: Iterable[str]) -> str:
    """Joins characters with spaces, invisible ones as U+ABCD."""
    return " ".join(
        each
        if each.isprintable() and not unicodedata.combining(each)
        else f"U+{ord(each):04X}"
        for each in characters
    )


def frequent_characters(
    sentences: Iterable[str], limit: int, normalization: str = NFKC_RULES
) -> str:
    """Returns at most `limit` frequent characters, for `train_vocabulary`.

    By default SentencePiece drops the rarest characters, 0.05 % of a text: most
    digits, brackets and capitals in everyday sentences. Returns a str of
    normalized characters that occur at least three times, most frequent first,
    without reserved characters.
    """
    # Normalizes sentences, not characters: letters and marks combine.
    normalizer = make_normalizer(normalization)
    sentences, counts = iter(sentences), count_code_points([])
    while batch := list(itertools.islice(sentences, _BATCH_SENTENCES)):
        counts += count_code_points(normalizer.normalize(batch))
    # The tokenizer drops NUL, but normalization does not.
    for character in ("\0", SPACE, _UNKNOWN_MARK, _BOUNDARY):
        counts[ord(character)] = 0
    # Ties: the lower code point first.
    order = np.argsort(-counts, kind="stable")[:limit]
    frequent = order[counts[order] >= _MIN_CHARACTER_COUNT]
    return "".join(map(chr, frequent))


def train_vocabulary(
    sentences: Iterable[str],
    size: int,
    characters: str = "",
    normalization: str = NFKC_RULES,
    byte_fallback: bool = False,
    tags: Sequence[str] = (),
) -> bytes:
    """Trains a byte-pair encoding; returns the bytes of its model.

    As in section 5.1, `sentences` come from both languages. `size` includes the
    four special tokens. Each of `characters` gets a token, however rare, as do
    the most frequent characters, 99.95 % of the text. Other characters become
    the unknown token, or with `byte_fallback` their UTF-8 bytes, which have 256
    of the tokens. `normalization` is a name for `make_normalizer`, and `tags`
    are words such as ">>de<<" that have a token each. Raises
    InputError if the text gives too few or needs too many tokens.
    """
    model = io.BytesIO()
    # Its training counts words: they take less memory than sentences.
    words: collections.Counter[str] = collections.Counter()
    for segment in _segment(sentences):
        words.update(segment.replace("\t", " ").split(" "))
    # Between two spaces.
    del words[""]
    if not words:
        raise InputError(
            "There is no text to train a vocabulary on; check the data set."
        )
    # SentencePiece's callbacks may swallow a KeyboardInterrupt.
    with StopSignals(lambda: None) as signals:
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_pop_words(words, signals),
                input_format="tsv",
                normalizer=make_normalizer(normalization),
                model_writer=model,
                model_type="bpe",
                vocab_size=size,
                byte_fallback=byte_fallback,
                required_chars=characters,
                # Not in the middle of a word.
                user_defined_symbols=[f"{SPACE}{tag}" for tag in tags],
                pad_id=PAD_ID,
                unk_id=UNKNOWN_ID,
                bos_id=BEGIN_ID,
                eos_id=END_ID,
                num_threads=processes.processor_count(),
                minloglevel=2,
            )
        except (RuntimeError, OSError, ValueError) as error:
            if not signals.received:
                raise InputError(_explain_error(str(error), size)) from error
    if signals.received == signal.SIGINT:
        raise KeyboardInterrupt
    if signals.received:
        sys.exit(128 + signals.received)
    return model.getvalue()


def _pop_words(words, signals):
    """Yields words with their counts, until a signal is received."""
    while words and not signals.received:
        word, count = words.popitem()
        yield f"{word}\t{count}"


def _segment(sentences):
    """Yields sentences, long ones in segments.

    Skips those without a visible character.
    """
    for sentence in sentences:
        # SentencePiece would skip the sentence.
        sentence = clean_line(sentence.replace(_UNKNOWN_MARK, " "))
        if len(sentence.encode()) > _MAX_BYTES:
            yield from _SEGMENT.findall(sentence)
        elif sentence:
            yield sentence


def _explain_error(message, size):
    """Rephrases a SentencePiece error message for users."""
    vocabulary = f"A vocabulary of {size} tokens"
    if maximum := re.search(r"value <= (\d+)", message):
        return (
            f"{vocabulary} is too large for this text; set vocabulary_size to "
            f"{maximum[1]} or less."
        )
    if minimum := re.search(r"smaller than required_chars.* vs (\d+)", message):
        return (
            f"{vocabulary} is too small for this text, whose characters alone "
            f"need {minimum[1]}; raise vocabulary_size."
        )
    return f"{vocabulary} cannot be trained: {message}"
