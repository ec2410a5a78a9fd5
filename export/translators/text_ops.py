"""Operations on text and ids inside a graph: truncation, words of tokens.

Words are separated by white space, as by `str.split`, so Chinese text is one
word. Tokens and words are matched by the number of visible characters before
them. Characters that the tokenizer drops, and white space, are not visible.
"""

import typing
from collections.abc import Sequence

import tensorflow as tf

from export.tokenizers.tags import TAG, tag_pattern
from export.translators.batches import character_limit
from export.translators.languages import Languages
from keras_transformer.config import END_ID, PAD_ID
from keras_transformer.types import Tensor, TensorLike

if typing.TYPE_CHECKING:
    from export.tokenizers.tokenizer import Tokenizer

# The white space of `str.split` for RE2, whose \s is ASCII only.
_SPACES = r"\p{Z}\t-\r\x{1c}-\x{1f}\x{85}"
WHITE_SPACE = f"[{_SPACES}]+"
# The token of a byte of a character in UTF-8, but the first.
_CONTINUATION_BYTE = "<0x[89AB][0-9A-F]>"
# With "▁", SentencePiece's symbol for a space.
_WHITE_SPACE_OR_SYMBOL = rf"[{_SPACES}\x{{2581}}]+"


def truncate_ids(ids: Tensor, limit: int) -> tuple[Tensor, Tensor]:
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


def truncate_text(
    tokenizer: "Tokenizer", text: Tensor, limit: int
) -> tuple[Tensor, Tensor]:
    """Truncates text, string [B], to `limit` characters of valid UTF-8.

    Also returns bool [B]: which rows were truncated.
    """
    text = tokenizer.mark_case(tokenizer.clean_text(text))
    too_long = tf.strings.length(text, unit="UTF8_CHAR") > limit
    return tf.strings.substr(text, 0, limit, unit="UTF8_CHAR"), too_long


def add_tags(
    text: Tensor, tags: Sequence[TensorLike], languages: Languages
) -> Tensor:
    """Adds the tags of languages that a text, string [B], does not begin with.

    `tags` are a list of strings, scalar or [B]; the first ones are added.
    `languages` are those of the model; what looks like another tag is text.
    """
    pattern = "^"
    tagged = text
    for tag in reversed(tags):
        pattern += tag_pattern(languages.codes)
        # Not a full match: the text may have bytes that are not UTF-8.
        rest = tf.strings.regex_replace(text, pattern, "", replace_global=False)
        is_tagged = tf.strings.length(rest) < tf.strings.length(text)
        tagged = tf.where(is_tagged, tagged, tf.strings.join([tag, tagged]))
    return tagged


def remove_tags(text: Tensor, languages: Languages) -> Tensor:
    """Removes the tags of Languages that a text, string [B], begins with."""
    tag = tag_pattern(languages.codes)
    pattern = f"^(?:{tag}){{0,{languages.num_tags}}}"
    return tf.strings.regex_replace(text, pattern, "", replace_global=False)


def trim(tokens: Tensor) -> Tensor:
    """Drops the columns at the end of int32 [..., T] that are all padding."""
    is_token = tf.reshape(tokens != PAD_ID, [-1, tf.shape(tokens)[-1]])
    is_used = tf.reduce_any(is_token, axis=0)
    return tokens[..., : tf.math.count_nonzero(is_used, dtype=tf.int32)]


def padded_ids_to_tokens(tokenizer: "Tokenizer", ids: TensorLike) -> Tensor:
    """Returns tokens, string [B, S]: "" for padding, "<unk>" if unknown."""
    return tf.where(ids == PAD_ID, "", tokenizer.ids_to_tokens(ids))


def source_word_spans(
    tokenizer: "Tokenizer", text: Tensor, ids: TensorLike, limit: int
) -> Tensor:
    """Finds the words that the tokens of a text belong to.

    `text`, string [B], is not truncated; `ids` are its padded ids, int32
    [B, S], truncated to `limit`. Returns int32 [B, S, 2]: indices of the first
    and of the last word of each token. A token of white space only belongs to
    the next word. -1 for the end id, padding, and tokens of texts without
    visible characters.

    In "the cat." the tokens "▁the", "▁ca", "t." and the end id have the spans
    [0, 0], [1, 1], [1, 1] and [-1, -1].
    """
    max_characters = character_limit(limit)
    truncated_text, _ = truncate_text(tokenizer, text, max_characters)
    before, after = _count_visible_around_tokens(tokenizer, truncated_text)
    length = tf.shape(ids)[1]
    word_lengths = _source_word_lengths(tokenizer, text, max_characters)
    return _word_spans(ids, before[:, :length], after[:, :length], word_lengths)


def exclude_tags(tokenizer: "Tokenizer", ids: Tensor, spans: Tensor) -> Tensor:
    """Sets the spans of the tags before a text to -1, so of no word.

    `ids` are int32 [B, S], and `spans` int32 [B, S, 2] of `source_word_spans`.
    """
    if not tokenizer.num_tags:
        return spans
    tokens = tokenizer.ids_to_tokens(ids[:, : tokenizer.num_tags])
    is_tag = tf.strings.regex_full_match(tokens, TAG)
    missing = tf.shape(ids)[1] - tf.shape(is_tag)[1]
    is_tag = tf.pad(is_tag, [[0, 0], [0, missing]])
    return tf.where(is_tag[:, :, None], -1, spans)


def _count_visible_around_tokens(tokenizer, text):
    """Counts visible characters before each token and up to its end."""
    _, starts, ends = tokenizer.tokenize_with_offsets(text)
    characters = tf.strings.unicode_split(text, "UTF-8")
    sizes = tf.cast(tf.strings.length(characters.values), starts.dtype)
    sizes = characters.with_values(sizes).to_tensor()
    character_ends = tf.cumsum(sizes, axis=1)
    is_visible = _count_visible(tokenizer, characters.values) > 0
    is_visible = characters.with_values(is_visible).to_tensor()
    visible_ends = tf.ragged.boolean_mask(character_ends, is_visible)
    visible_ends = visible_ends.to_tensor(visible_ends.dtype.max)
    # The result of a search is the number of ends up to a byte offset.
    before = tf.searchsorted(visible_ends, starts.to_tensor(), side="right")
    after = tf.searchsorted(visible_ends, ends.to_tensor(), side="right")
    return before, after


def _source_word_lengths(tokenizer, text, max_characters):
    """Returns the number of visible characters in each word, ragged [B, None].

    Words after the first `max_characters` of the clean text may be missing.
    """
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
    # Limits the memory of the split. Clean text has no NUL; here single ones
    # remain, at most one before each of its characters.
    text = tf.strings.regex_replace(text, r"\x00+", "\0")
    text = tf.strings.regex_replace(text, WHITE_SPACE, " ")
    text = tf.strings.substr(text, 0, 2 * max_characters, "UTF8_CHAR")
    words = tf.strings.split(text)
    characters = tf.strings.unicode_split(words.values, "UTF-8")
    counts = _count_visible(tokenizer, characters.values)
    counts = tf.reduce_sum(characters.with_values(counts), axis=1)
    return words.with_values(counts)


def target_word_spans(tokenizer: "Tokenizer", ids: TensorLike) -> Tensor:
    """Finds the words of the decoded text that tokens belong to.

    For padded ids, int32 [B, T], it returns int32 [B, T, 2] as in
    `source_word_spans`. It decodes the T prefixes of each row, which takes
    B * T * T ids of memory, since the text of a token depends on those before.
    """
    batch_size, length = tf.unstack(tf.shape(ids))
    is_within = tf.range(length)[:, None] >= tf.range(length)
    prefixes = tf.where(is_within, ids[:, None], PAD_ID)
    prefixes = tf.reshape(prefixes, [batch_size * length, length])
    counts = _count_characters(tokenizer.detokenize(prefixes))
    counts = tf.reshape(counts, [batch_size, 1, length])
    # A prefix that ends within a character of several byte tokens has one
    # U+FFFD for each of these bytes, and so more characters than later ones.
    later_counts = tf.where(tf.transpose(is_within), counts, counts.dtype.max)
    after = tf.reduce_min(later_counts, axis=2)
    before = tf.pad(after[:, :-1], [[0, 0], [1, 0]])[:, :length]
    # So only the first byte adds a character, to which the next ones belong.
    tokens = tokenizer.ids_to_tokens(ids)
    is_next_byte = tf.strings.regex_full_match(tokens, _CONTINUATION_BYTE)
    is_next_byte &= (after == before) & (before > 0)
    before -= tf.cast(is_next_byte, before.dtype)
    text = tokenizer.detokenize(ids)
    words = tf.strings.split(tf.strings.regex_replace(text, WHITE_SPACE, " "))
    word_lengths = words.with_values(_count_characters(words.values))
    return _word_spans(ids, before, after, word_lengths)


def _word_spans(ids, before, after, word_lengths):
    """Returns the spans of `source_word_spans`.

    `before` and `after`, int32 [B, S], count visible characters before each
    token and up to its end; `word_lengths`, ragged [B, None], those in each
    word.
    """
    totals = tf.reduce_sum(word_lengths, axis=1)
    indices = tf.ragged.range(word_lengths.row_lengths()).values
    indices = tf.repeat(tf.cast(indices, tf.int32), word_lengths.values)
    # The word of each visible character.
    words = tf.RaggedTensor.from_row_lengths(indices, totals).to_tensor(-1)
    # A last column of -1 is there even if no text has a word.
    words = tf.pad(words, [[0, 0], [0, 1]], constant_values=-1)
    ends = tf.maximum(totals[:, None] - 1, 0)
    first = tf.minimum(before, ends)
    last = tf.clip_by_value(after - 1, first, ends)
    spans = tf.gather(words, tf.stack([first, last], axis=2), batch_dims=1)
    is_token = (ids != PAD_ID) & (ids != END_ID)
    return tf.where(is_token[:, :, None], spans, -1)


def _count_visible(tokenizer, characters):
    """Returns the number of visible characters that each becomes, int32 [N].

    `clean_text` may replace one by several, such as "…" by "...", or by none.
    """
    characters, indices = tf.unique(characters)
    clean = tf.strings.unicode_split(tokenizer.clean_text(characters), "UTF-8")
    tokens_without_end = tokenizer.split(clean.values)[:, :-1]
    spellings = tf.strings.reduce_join(tokens_without_end, axis=1)
    spellings = tf.strings.regex_replace(spellings, _WHITE_SPACE_OR_SYMBOL, "")
    is_space = tf.strings.regex_full_match(clean.values, WHITE_SPACE)
    is_visible = (spellings != "") & ~is_space
    counts = clean.with_values(tf.cast(is_visible, tf.int32))
    return tf.gather(tf.reduce_sum(counts, axis=1), indices)


def _count_characters(text):
    text = tf.strings.regex_replace(text, WHITE_SPACE, "")
    return tf.strings.length(text, unit="UTF8_CHAR")
