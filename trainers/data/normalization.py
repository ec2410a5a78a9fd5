"""Unicode normalization rules of a vocabulary, and their effect on a text.

A SentencePiece model contains its rules, so training, translation and exports
normalize text in the same way.
"""

import collections
import functools
import unicodedata

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

DEFAULT_RULES = "nmt_nfkc"
NFC_RULES = "nmt_nfc"
NORMALIZATIONS = (
    *("auto", DEFAULT_RULES, NFC_RULES),
    *("nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"),
)

# Share of a side's characters that the rules change: 0.02 % in European text
# ("…", "²"), over 1 % in Persian (ZWNJ), Thai (sara am), Chinese (，！？).
_MAX_CHANGED = 0.002
_CODE_POINTS = 0x110000
_EXAMPLES = 8
_BYTE_ORDER_MARK = "\ufeff"
# SentencePiece's character for white space.
_SPACE = "\u2581"


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
    for text, result in make_normalizer(DEFAULT_RULES).decompile():
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

    `name` is one of `NORMALIZATIONS`; "auto" means nmt_nfkc, or nmt_nfc if
    nmt_nfkc would change over 0.2 % of the characters of a side. `counts` is a
    list of the `count_code_points` of each side.
    """
    if name != "auto":
        return name
    normalizer = make_normalizer(DEFAULT_RULES)
    shares = [_measure_change(each, normalizer)[0] for each in counts]
    return DEFAULT_RULES if max(shares) <= _MAX_CHANGED else NFC_RULES


def describe_normalization(counts, models):
    """Returns a line on what the models' rules change on each side."""
    sides = []
    for side, count, model in zip(("source", "target"), counts, models):
        normalizer = sentencepiece.SentencePieceNormalizer(model_proto=model)
        share, changed = _measure_change(count, normalizer)
        shown = f" ({format_characters(changed)})" if changed else ""
        sides.append(f"{share:.2%} of the {side} characters{shown}")
    name = normalization_name(models[0])
    return f"Normalisation {name} changes {', '.join(sides)}."


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
