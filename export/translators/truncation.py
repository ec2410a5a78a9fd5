"""Ids between text and a search: cut to what a model takes, in a graph."""

import numpy as np
import tensorflow as tf

from export.translators.text_ids import character_limit
from keras_transformer.config import END_ID, PAD_ID


def truncate_ids(ids, limit):
    """Truncates ids to a limit; what is truncated still ends with the end id.

    Args:
        ids: RaggedTensor int32 [B, None] or int32 [B, S] with padding.
        limit: the most ids that are kept, the end id counted.

    Returns:
        int32 [B, S'] with padding, S' at most `limit`, and boolean [B]: which
        were cut.
    """
    if isinstance(ids, tf.RaggedTensor):
        lengths = ids.row_lengths()
        kept = ids[:, :limit].to_tensor()
    else:
        places = tf.range(1, tf.shape(ids)[1] + 1)
        lengths = tf.reduce_max(tf.where(ids != PAD_ID, places, 0), axis=1)
        kept = ids[:, :limit]
    too_long = lengths > limit
    last = tf.range(tf.shape(kept)[1]) == limit - 1
    return tf.where(too_long[:, None] & last, END_ID, kept), too_long


def truncate_text(tokenizer, text, characters):
    """Truncates text to a number of characters, after making it readable.

    Args:
        tokenizer: Tokenizer.
        text: string [B].
        characters: the most that are kept.

    Returns:
        string [B], and boolean [B]: which were cut.
    """
    text = tokenizer.clean_text(text)
    too_long = tf.strings.length(text, unit="UTF8_CHAR") > characters
    return tf.strings.substr(text, 0, characters, unit="UTF8_CHAR"), too_long


def cut_ids(tokenizer, texts, limit):
    """Splits a list of str into ids, outside a graph.

    Args:
        tokenizer: Tokenizer.
        texts: list of str.
        limit: the most ids that are kept of a text, the end id counted.

    Returns:
        A list of pairs: int32 array, which ends with the end id, and whether
        the text had more.
    """
    if not texts:
        return []
    texts, too_long = truncate_text(
        tokenizer, tf.constant(texts), character_limit(limit)
    )
    found = tokenizer.encode(texts.numpy().tolist())
    return [
        (_truncated(ids, limit), bool(is_cut or len(ids) > limit))
        for ids, is_cut in zip(found, too_long.numpy())
    ]


def _truncated(ids, limit):
    if len(ids) <= limit:
        return ids
    return np.append(ids[: limit - 1], END_ID).astype(np.int32)


def trim(tokens):
    """Drops the columns at the end of int32 [..., T] that are all padding."""
    used = tf.reduce_any(
        tf.reshape(tokens != PAD_ID, [-1, tf.shape(tokens)[-1]]), axis=0
    )
    return tokens[..., : tf.math.count_nonzero(used, dtype=tf.int32)]


def pieces_of(tokenizer, ids):
    """Returns the pieces of ids.

    Args:
        tokenizer: Tokenizer.
        ids: int32 [B, S].

    Returns:
        string [B, S]; "" for padding, "<unk>" for an id that the vocabulary
        lacks.
    """
    return tf.where(ids == PAD_ID, "", tokenizer.pieces(ids))
