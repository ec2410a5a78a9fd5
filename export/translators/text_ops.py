"""Operations on text and ids inside a graph: truncation, words of tokens.

Words are separated by white space, as by `str.split`, so Chinese text is one
word. Tokens and words are matched by the number of visible characters before
them. Characters that the tokenizer drops, and white space, are not visible.
"""

import numpy as np
import tensorflow as tf

from export.translators.batches import character_limit
from keras_transformer.config import END_ID, PAD_ID

# The white space of `str.split` for RE2, whose \s is ASCII only.
_WHITE_SPACE = r"[\p{Z}\t-\r\x{1c}-\x{1f}\x{85}]+"
# White space and SentencePiece's symbol for a space.
_WHITE_SPACE_OR_SYMBOL = r"[\p{Z}\t-\r\x{1c}-\x{1f}\x{85}\x{2581}]+"


def truncate_ids(ids, limit):
    """Truncates rows to at most `limit` ids; they still end with the end id.

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
    is_last = tf.range(tf.shape(truncated)[1]) == limit - 1
    return tf.where(too_long[:, None] & is_last, END_ID, truncated), too_long


def truncate_text(tokenizer, text, limit):
    """Truncates text, string [B], to `limit` characters of valid UTF-8.

    Also returns bool [B]: which rows were truncated.
    """
    text = tokenizer.clean_text(text)
    too_long = tf.strings.length(text, unit="UTF8_CHAR") > limit
    return tf.strings.substr(text, 0, limit, unit="UTF8_CHAR"), too_long


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
    encoded = []
    rows = tokenizer.encode(texts.numpy().tolist())
    for ids, truncated in zip(rows, too_long.numpy().tolist()):
        if len(ids) > limit:
            ids = np.append(ids[: limit - 1], END_ID).astype(np.int32)
            truncated = True
        encoded.append((ids, truncated))
    return encoded


def trim(tokens):
    """Drops the columns at the end of int32 [..., T] that are all padding."""
    is_token = tf.reshape(tokens != PAD_ID, [-1, tf.shape(tokens)[-1]])
    is_used = tf.reduce_any(is_token, axis=0)
    return tokens[..., : tf.math.count_nonzero(is_used, dtype=tf.int32)]


def padded_ids_to_tokens(tokenizer, ids):
    """Returns tokens, string [B, S]: "" for padding, "<unk>" if unknown."""
    return tf.where(ids == PAD_ID, "", tokenizer.ids_to_tokens(ids))


def source_word_spans(tokenizer, text, ids, limit):
    """Finds the words that the tokens of a text belong to.

    `text`, string [B], is not truncated; `ids` are its padded ids, int32
    [B, S], truncated to `limit`. Returns int32 [B, S, 2]: indices of the first
    and of the last word of each token. A token of white space only belongs to
    the next word. -1 for the end id, padding, and tokens of texts without
    visible characters.
    """
    truncated, _ = truncate_text(tokenizer, text, character_limit(limit))
    _, starts, ends = tokenizer.tokenize_with_offsets(truncated)
    characters = tf.strings.unicode_split(truncated, "UTF-8")
    # Byte offsets of the ends of visible characters.
    sizes = tf.cast(tf.strings.length(characters.values), starts.dtype)
    offsets = tf.cumsum(characters.with_values(sizes).to_tensor(), axis=1)
    is_visible = _count_visible(tokenizer, characters.values) > 0
    mask = characters.with_values(is_visible).to_tensor()
    offsets = tf.ragged.boolean_mask(offsets, mask)
    offsets = offsets.to_tensor(offsets.dtype.max)
    before = tf.searchsorted(offsets, starts.to_tensor(), side="right")
    after = tf.searchsorted(offsets, ends.to_tensor(), side="right")
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
    # Bounds the memory; the truncated text is among these characters.
    text = tf.strings.regex_replace(text, r"\x00+", "\0")
    text = tf.strings.regex_replace(text, _WHITE_SPACE, " ")
    text = tf.strings.substr(text, 0, 2 * character_limit(limit), "UTF8_CHAR")
    words = tf.strings.split(text)
    characters = tf.strings.unicode_split(words.values, "UTF-8")
    counts = _count_visible(tokenizer, characters.values)
    counts = tf.reduce_sum(characters.with_values(counts), axis=1)
    lengths = words.with_values(counts)
    length = tf.shape(ids)[1]
    return _word_spans(ids, before[:, :length], after[:, :length], lengths)


def target_word_spans(tokenizer, ids):
    """Finds the words of the decoded text that tokens belong to.

    For padded ids, int32 [B, T], it returns int32 [B, T, 2] as in
    `source_word_spans`.
    """
    batch_size, length = tf.unstack(tf.shape(ids))
    is_within = tf.range(length)[:, None] >= tf.range(length)
    prefixes = tf.where(is_within, ids[:, None], PAD_ID)
    prefixes = tf.reshape(prefixes, [batch_size * length, length])
    counts = _count_characters(tokenizer.detokenize(prefixes))
    counts = tf.reshape(counts, [batch_size, 1, length])
    # A character of several bytes counts as more until it is complete.
    later = tf.where(tf.transpose(is_within), counts, counts.dtype.max)
    after = tf.reduce_min(later, axis=2)
    before = tf.pad(after[:, :-1], [[0, 0], [1, 0]])[:, :length]
    text = tokenizer.detokenize(ids)
    words = tf.strings.split(tf.strings.regex_replace(text, _WHITE_SPACE, " "))
    lengths = words.with_values(_count_characters(words.values))
    return _word_spans(ids, before, after, lengths)


def _word_spans(ids, before, after, lengths):
    """Returns the spans of `source_word_spans`.

    `before` and `after`, int32 [B, S], count visible characters before each
    token and up to its end; `lengths`, ragged [B, None], those in each word.
    """
    totals = tf.reduce_sum(lengths, axis=1)
    indices = tf.ragged.range(lengths.row_lengths()).values
    indices = tf.repeat(tf.cast(indices, tf.int32), lengths.values)
    # The word of each visible character.
    words = tf.RaggedTensor.from_row_lengths(indices, totals).to_tensor(-1)
    # Another column, for texts without words.
    words = tf.pad(words, [[0, 0], [0, 1]], constant_values=-1)
    ends = tf.maximum(totals[:, None] - 1, 0)
    first = tf.minimum(before, ends)
    last = tf.clip_by_value(after - 1, first, ends)
    spans = tf.gather(words, tf.stack([first, last], axis=2), batch_dims=1)
    is_token = (ids != PAD_ID) & (ids != END_ID)
    return tf.where(is_token[:, :, None], spans, -1)


def _count_visible(tokenizer, characters):
    """Returns the number of visible characters that each becomes, int32 [N]."""
    characters, indices = tf.unique(characters)
    clean = tf.strings.unicode_split(tokenizer.clean_text(characters), "UTF-8")
    tokens = tokenizer.split(clean.values)[:, :-1]
    texts = tf.strings.reduce_join(tokens, axis=1)
    is_space = tf.strings.regex_full_match(clean.values, _WHITE_SPACE)
    visible = tf.strings.regex_replace(texts, _WHITE_SPACE_OR_SYMBOL, "")
    is_visible = (visible != "") & ~is_space
    counts = clean.with_values(tf.cast(is_visible, tf.int32))
    return tf.gather(tf.reduce_sum(counts, axis=1), indices)


def _count_characters(text):
    text = tf.strings.regex_replace(text, _WHITE_SPACE, "")
    return tf.strings.length(text, unit="UTF8_CHAR")
