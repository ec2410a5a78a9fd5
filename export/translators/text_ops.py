"""Operations on text and ids inside a graph: truncation, words of tokens.

Words are those of `str.split`, so text without white space, such as Chinese, is
one word. Tokens and words are matched by the number of visible characters
before them: those that are neither white space nor dropped by the tokenizer.
"""

import numpy as np
import tensorflow as tf

from export.translators.batches import character_limit
from keras_transformer.config import END_ID, PAD_ID

# The white space of `str.split` for RE2, whose \s is ASCII only.
_WHITE_SPACE = r"[\p{Z}\t-\r\x{1c}-\x{1f}\x{85}]+"
# White space and SentencePiece's symbol for a space.
_BLANKS = r"[\p{Z}\t-\r\x{1c}-\x{1f}\x{85}\x{2581}]+"


def truncate_ids(ids, limit):
    """Truncates ids to `limit` at most; rows still end with the end id.

    `ids` are a RaggedTensor int32 [B, None] or int32 [B, S] with padding.
    Returns int32 [B, S'], padded, and bool [B]: which rows were truncated.
    """
    if isinstance(ids, tf.RaggedTensor):
        lengths = ids.row_lengths()
        truncated = ids[:, :limit].to_tensor()
    else:
        positions = tf.range(1, tf.shape(ids)[1] + 1)
        lengths = tf.reduce_max(tf.where(ids != PAD_ID, positions, 0), axis=1)
        truncated = ids[:, :limit]
    too_long = lengths > limit
    last = tf.range(tf.shape(truncated)[1]) == limit - 1
    return tf.where(too_long[:, None] & last, END_ID, truncated), too_long


def truncate_text(tokenizer, text, characters):
    """Truncates text, string [B], to a number of characters, as valid UTF-8.

    Also returns bool [B]: which rows were truncated.
    """
    text = tokenizer.clean_text(text)
    too_long = tf.strings.length(text, unit="UTF8_CHAR") > characters
    return tf.strings.substr(text, 0, characters, unit="UTF8_CHAR"), too_long


def encode_texts(tokenizer, texts, limit):
    """Encodes a list of str, outside a graph.

    Returns a list of pairs: an int32 array of at most `limit` ids, the end id
    included, and whether it was truncated.
    """
    if not texts:
        return []
    texts, too_long = truncate_text(
        tokenizer, tf.constant(texts), character_limit(limit)
    )
    rows, all_ids = [], tokenizer.encode(texts.numpy().tolist())
    for ids, truncated in zip(all_ids, too_long.numpy()):
        if len(ids) > limit:
            ids = np.append(ids[: limit - 1], END_ID).astype(np.int32)
            truncated = True
        rows.append((ids, bool(truncated)))
    return rows


def trim(tokens):
    """Drops the columns at the end of int32 [..., T] that are all padding."""
    used = tf.reduce_any(
        tf.reshape(tokens != PAD_ID, [-1, tf.shape(tokens)[-1]]), axis=0
    )
    return tokens[..., : tf.math.count_nonzero(used, dtype=tf.int32)]


def padded_ids_to_tokens(tokenizer, ids):
    """Returns tokens, string [B, S]: "" for padding, "<unk>" if unknown."""
    return tf.where(ids == PAD_ID, "", tokenizer.ids_to_tokens(ids))


def source_word_spans(tokenizer, text, ids, limit):
    """Finds the words that the tokens of a text belong to.

    `text`, string [B], is not truncated; `ids` are its padded ids, int32
    [B, S], truncated to `limit`. Returns int32 [B, S, 2]: index of the first
    and of the last word of each token, from 0. A token of white space only
    belongs to the next word. -1 for the end id, padding, and where the
    tokenizer sees no word.
    """
    truncated, _ = truncate_text(tokenizer, text, character_limit(limit))
    _, starts, ends = tokenizer.tokenize_with_offsets(truncated)
    characters = tf.strings.unicode_split(truncated, "UTF-8")
    # Byte offsets of the ends of visible characters.
    sizes = tf.cast(tf.strings.length(characters.values), starts.dtype)
    offsets = tf.cumsum(characters.with_values(sizes).to_tensor(), axis=1)
    visible = _count_visible(tokenizer, characters.values) > 0
    mask = characters.with_values(visible).to_tensor()
    offsets = tf.ragged.boolean_mask(offsets, mask)
    offsets = offsets.to_tensor(offsets.dtype.max)
    before, after = (
        tf.searchsorted(offsets, each.to_tensor(), side="right")
        for each in (starts, ends)
    )
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
    # Bounds the memory: `read` is of the first of these characters.
    for run, one in ((r"\x00+", "\0"), (_WHITE_SPACE, " ")):
        text = tf.strings.regex_replace(text, run, one)
    text = tf.strings.substr(text, 0, 2 * character_limit(limit), "UTF8_CHAR")
    words = tf.strings.split(text)
    letters = tf.strings.unicode_split(words.values, "UTF-8")
    letters = letters.with_values(_count_visible(tokenizer, letters.values))
    lengths = words.with_values(tf.reduce_sum(letters, axis=1))
    length = tf.shape(ids)[1]
    return _word_spans(ids, before[:, :length], after[:, :length], lengths)


def target_word_spans(tokenizer, ids):
    """Finds the words of the decoded text that tokens belong to.

    For padded ids, int32 [B, T], it returns int32 [B, T, 2] as in
    `source_word_spans`.
    """
    rows, length = tf.unstack(tf.shape(ids))
    is_within = tf.range(length)[:, None] >= tf.range(length)
    prefixes = tf.where(is_within, ids[:, None], PAD_ID)
    texts = tokenizer.detokenize(tf.reshape(prefixes, [rows * length, length]))
    after = tf.reshape(_count_letters(texts), [rows, 1, length])
    # A character of several bytes counts as more until it is complete.
    later = tf.where(tf.transpose(is_within), after, after.dtype.max)
    after = tf.reduce_min(later, axis=2)
    before = tf.pad(after[:, :-1], [[0, 0], [1, 0]])[:, :length]
    words = _split_words(tokenizer.detokenize(ids))
    lengths = words.with_values(_count_letters(words.values))
    return _word_spans(ids, before, after, lengths)


def _word_spans(ids, before, after, lengths):
    """Returns spans as in `source_word_spans` from counts of characters."""
    totals = tf.reduce_sum(lengths, axis=1)
    numbers = tf.ragged.range(lengths.row_lengths()).values
    numbers = tf.repeat(tf.cast(numbers, tf.int32), lengths.values)
    words = tf.RaggedTensor.from_row_lengths(numbers, totals).to_tensor(-1)
    # Another column, for texts without words.
    words = tf.pad(words, [[0, 0], [0, 1]], constant_values=-1)
    ends = tf.maximum(totals[:, None] - 1, 0)
    first = tf.minimum(before, ends)
    last = tf.clip_by_value(after - 1, first, ends)
    spans = [tf.gather(words, each, batch_dims=1) for each in (first, last)]
    spans = tf.stack(spans, axis=2)
    is_token = (ids != PAD_ID) & (ids != END_ID)
    return tf.where(is_token[:, :, None], spans, -1)


def _count_visible(tokenizer, characters):
    """Returns the number of visible characters that each becomes, int32 [N]."""
    characters, indices = tf.unique(characters)
    clean = tf.strings.unicode_split(tokenizer.clean_text(characters), "UTF-8")
    tokens = tokenizer.split(clean.values)[:, :-1]
    texts = tf.strings.reduce_join(tokens, axis=1)
    is_space = tf.strings.regex_full_match(clean.values, _WHITE_SPACE)
    is_visible = tf.strings.regex_replace(texts, _BLANKS, "") != ""
    counts = clean.with_values(tf.cast(is_visible & ~is_space, tf.int32))
    return tf.gather(tf.reduce_sum(counts, axis=1), indices)


def _split_words(text):
    return tf.strings.split(tf.strings.regex_replace(text, _WHITE_SPACE, " "))


def _count_letters(text):
    text = tf.strings.regex_replace(text, _WHITE_SPACE, "")
    return tf.strings.length(text, unit="UTF8_CHAR")
