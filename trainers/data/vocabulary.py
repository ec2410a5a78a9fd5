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

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from export.common import processes
from export.common.errors import InputError
from export.common.processes import StopSignals
from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID

NFKC_RULES = "nmt_nfkc"
NFC_RULES = "nmt_nfc"
NORMALIZATIONS = (
    *("auto", NFKC_RULES, NFC_RULES),
    *("nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"),
)

# Share of a side's characters that the rules change: 0.02 % in European text
# ("…", "²"), over 1 % in Persian (ZWNJ), Thai (sara am), Chinese (，！？).
_MAX_CHANGED = 0.002
_CODE_POINTS = 0x110000
_EXAMPLES = 8
_BYTE_ORDER_MARK = "\ufeff"

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


@functools.cache
def make_normalizer(name):
    """Returns the SentencePieceNormalizer for a name other than "auto"."""
    if name != NFC_RULES:
        return sentencepiece.SentencePieceNormalizer(rule_name=name)
    # Otherwise SentencePiece logs the size of the rules.
    sentencepiece.set_min_log_level(2)
    rules = sentencepiece.SentencePieceNormalizer(norm_map=_canonical_rules())
    spec = sentencepiece_model_pb2.NormalizerSpec.FromString(
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
        for form in (text, unicodedata.normalize("NFD", text)):
            if form != composed:
                rules[form] = composed
    return list(rules.items())


def normalization_name(model):
    """Returns the name of the rules in a serialized SentencePiece model."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    return proto.normalizer_spec.name


def count_code_points(texts):
    """Counts the code points of texts, as int64 [0x110000]."""
    text = "".join(texts).encode("utf-32-le")
    codes = np.frombuffer(text, np.uint32)
    return np.bincount(codes, minlength=_CODE_POINTS)


def choose_normalization(name, counts):
    """Returns the rules for training a vocabulary.

    The name "auto" means nmt_nfkc, or nmt_nfc if nmt_nfkc would change over
    0.2 % of a side's characters, whose `count_code_points` are given.
    """
    if name != "auto":
        return name
    normalizer = make_normalizer(NFKC_RULES)
    shares = [_measure_change(each, normalizer)[0] for each in counts]
    return NFKC_RULES if max(shares) <= _MAX_CHANGED else NFC_RULES


def describe_normalization(counts, models):
    """Returns a line on what the models' rules change on each side."""
    sides = []
    for side, count, model in zip(("source", "target"), counts, models):
        normalizer = sentencepiece.SentencePieceNormalizer(model_proto=model)
        share, changed = _measure_change(count, normalizer)
        shown = f" ({format_characters(changed)})" if changed else ""
        sides.append(f"{share:.2%} of the {side} characters{shown}")
    name = normalization_name(models[0])
    return f"Normalization {name} changes {', '.join(sides)}."


def _measure_change(counts, normalizer):
    """Returns the share of changed characters, and the most frequent ones."""
    total, changed = 0, collections.Counter()
    for code in np.flatnonzero(counts).tolist():
        character = chr(code)
        if character.isspace():
            continue
        total += int(counts[code])
        canonical = unicodedata.normalize("NFC", character)
        result = normalizer.normalize(character).strip(_SPACE)
        if result not in (character, canonical):
            changed[character] = int(counts[code])
    examples = "".join(each for each, _ in changed.most_common(_EXAMPLES))
    return changed.total() / max(total, 1), examples


def format_characters(characters):
    """Joins characters with spaces, invisible ones as U+ABCD."""
    return " ".join(
        each
        if each.isprintable() and not unicodedata.combining(each)
        else f"U+{ord(each):04X}"
        for each in characters
    )


def frequent_characters(sentences, limit, normalization=NFKC_RULES):
    """Returns at most `limit` frequent characters, for `train_vocabulary`.

    SentencePiece by itself drops the characters in the last 0.05 % of a text:
    most digits, brackets and capitals in everyday sentences. The result is a
    str of normalized characters that occur at least three times, most frequent
    first, without reserved characters.
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


def train_vocabulary(sentences, size, characters="", normalization=NFKC_RULES):
    """Trains a byte-pair encoding; returns the bytes of its model.

    As in section 5.1, `sentences` are those of both languages. `size` includes
    the four special tokens. Each of `characters` gets a token, however rare;
    others get one if they are within the first 99.95 % of the text.
    `normalization` is a name for `make_normalizer`. Raises InputError if the
    text cannot give so many or so few tokens.
    """
    model, errors = io.BytesIO(), []
    # SentencePiece's callbacks may swallow a KeyboardInterrupt.
    with StopSignals(lambda: None) as signals:
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_split_long(sentences, signals, errors),
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
            if not errors and not signals.received:
                raise InputError(_explain(str(error), size)) from error
    if signals.received == signal.SIGINT:
        raise KeyboardInterrupt
    if signals.received:
        sys.exit(128 + signals.received)
    if errors:
        raise errors[0]
    return model.getvalue()


def _split_long(sentences, signals, errors):
    """Yields sentences in parts, until a signal; errors go to the list too."""
    try:
        for sentence in sentences:
            if signals.received:
                return
            sentence = sentence.replace(_UNKNOWN, " ")
            if len(sentence) * 4 > _MAX_BYTES < len(sentence.encode()):
                # Training counts words only, so sentences may be split.
                yield from _PART.findall(sentence)
            else:
                yield sentence
    except BaseException as error:
        # SentencePiece hides it.
        errors.append(error)
        raise


def _explain(message, size):
    """Translates a SentencePiece error message for users."""
    vocabulary = f"A vocabulary of {size} tokens"
    highest = re.search(r"value <= (\d+)", message)
    if highest:
        return (
            f"{vocabulary} is too large for this text; set vocabulary_size to "
            f"{highest[1]} or less."
        )
    smallest = re.search(r"smaller than required_chars.* vs (\d+)", message)
    if smallest:
        return (
            f"{vocabulary} is too small for this text, whose characters alone "
            f"need {smallest[1]}; raise vocabulary_size."
        )
    return f"{vocabulary} cannot be trained: {message}"
