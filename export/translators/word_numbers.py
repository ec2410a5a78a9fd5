"""Which words pieces are of, as the tokenizer made or joined them, in a graph.

A word is what the text has between white space, as `str.split` has it, so what
is written without any, such as Chinese, is one word. Pieces and words are
matched by the characters before them that are neither white space nor nothing
to the tokenizer.
"""

import tensorflow as tf

from export.translators.text_ids import character_limit
from export.translators.truncation import truncate_text
from keras_transformer.config import END_ID, PAD_ID

# What `str.split` splits at, for RE2; in its \s there is ASCII's alone.
_WHITE_SPACE = r"[\p{Z}\t-\r\x{1c}-\x{1f}\x{85}]+"
# The same and SentencePiece's mark of a space.
_BLANKS = r"[\p{Z}\t-\r\x{1c}-\x{1f}\x{85}\x{2581}]+"


def source_words(tokenizer, text, ids, limit):
    """Finds the words that the ids of a text are of.

    Args:
        tokenizer: Tokenizer.
        text: string [B], as it was given.
        ids: int32 [B, S]: its ids, at most `limit`, 0 after each one's end.
        limit: what the text was truncated to, ids.

    Returns:
        int32 [B, S, 2]: numbers of the first and the last word of each piece,
        from 0. A piece of white space alone is of the word behind it. -1 of
        the end id, of padding, and where the tokenizer sees no word.
    """
    read, _ = truncate_text(tokenizer, text, character_limit(limit))
    read = tokenizer.clean_text(read)
    _, starts, ends = tokenizer.tokenize_with_offsets(read)
    characters = tf.strings.unicode_split(read, "UTF-8")
    # Where each visible character ends.
    sizes = tf.cast(tf.strings.length(characters.values), starts.dtype)
    places = tf.cumsum(characters.with_values(sizes).to_tensor(), axis=1)
    visible = _visible(tokenizer, characters.values) > 0
    mask = characters.with_values(visible).to_tensor()
    places = tf.ragged.boolean_mask(places, mask)
    places = places.to_tensor(places.dtype.max)
    before, after = (
        tf.searchsorted(places, each.to_tensor(), side="right")
        for each in (starts, ends)
    )
    words = _split(tf.strings.unicode_transcode(text, "UTF-8", "UTF-8"))
    letters = tf.strings.unicode_split(words.values, "UTF-8")
    letters = letters.with_values(_visible(tokenizer, letters.values))
    lengths = words.with_values(tf.reduce_sum(letters, axis=1))
    length = tf.shape(ids)[1]
    return _numbers(ids, before[:, :length], after[:, :length], lengths)


def target_words(tokenizer, ids):
    """Finds the words that generated ids are of, in the text they make.

    Args:
        tokenizer: Tokenizer.
        ids: int32 [B, T], 0 after each one's end.

    Returns:
        int32 [B, T, 2], as of `source_words`.
    """
    rows, length = tf.unstack(tf.shape(ids))
    is_within = tf.range(length)[:, None] >= tf.range(length)
    prefixes = tf.where(is_within, ids[:, None], PAD_ID)
    texts = tokenizer.detokenize(tf.reshape(prefixes, [rows * length, length]))
    after = tf.reshape(_count_letters(texts), [rows, 1, length])
    # A character of several bytes counts as more until it is whole.
    later = tf.where(tf.transpose(is_within), after, after.dtype.max)
    after = tf.reduce_min(later, axis=2)
    before = tf.pad(after[:, :-1], [[0, 0], [1, 0]])[:, :length]
    words = _split(tokenizer.detokenize(ids))
    lengths = words.with_values(_count_letters(words.values))
    return _numbers(ids, before, after, lengths)


def _numbers(ids, before, after, lengths):
    """Returns the words of pieces by the visible characters around them.

    Args:
        ids: int32 [B, S].
        before: int32 [B, S], visible characters before each piece.
        after: int32 [B, S], the same with the piece's own.
        lengths: RaggedTensor int32 [B, None], visible characters of words.
    """
    totals = tf.reduce_sum(lengths, axis=1)
    owners = tf.RaggedTensor.from_row_lengths(
        tf.repeat(
            tf.ragged.range(lengths.row_lengths()).values, lengths.values
        ),
        totals,
    ).to_tensor(-1)
    # A column more, for texts without any.
    owners = tf.cast(
        tf.pad(owners, [[0, 0], [0, 1]], constant_values=-1), tf.int32
    )
    ends = tf.maximum(totals[:, None] - 1, 0)
    first = tf.minimum(before, ends)
    last = tf.clip_by_value(after - 1, first, ends)
    found = tf.stack(
        [tf.gather(owners, each, batch_dims=1) for each in (first, last)],
        axis=2,
    )
    is_piece = (ids != PAD_ID) & (ids != END_ID)
    return tf.where(is_piece[:, :, None], found, -1)


def _visible(tokenizer, characters):
    """Returns how many visible ones characters are read as: int32 [N]."""
    characters, places = tf.unique(characters)
    read = tf.strings.unicode_split(tokenizer.clean_text(characters), "UTF-8")
    # Without the end's.
    pieces = tokenizer.split(read.values)[:, :-1]
    texts = tf.strings.reduce_join(pieces, axis=1)
    is_space = tf.strings.regex_full_match(read.values, _WHITE_SPACE)
    is_visible = tf.strings.regex_replace(texts, _BLANKS, "") != ""
    counts = read.with_values(tf.cast(is_visible & ~is_space, tf.int32))
    return tf.gather(tf.reduce_sum(counts, axis=1), places)


def _split(text):
    """Returns the words of text, RaggedTensor string [B, None]."""
    return tf.strings.split(tf.strings.regex_replace(text, _WHITE_SPACE, " "))


def _count_letters(text):
    """Returns how many characters of text are no white space."""
    text = tf.strings.regex_replace(text, _WHITE_SPACE, "")
    return tf.strings.length(text, unit="UTF8_CHAR")
