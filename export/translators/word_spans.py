"""Words of tokens in Python, as `text_ops` finds them in a graph.

Words are separated by white space, as by `str.split`. A token belongs to the
words of its visible characters.
"""

import re
from collections.abc import Sequence

import numpy as np

from export.tokenizers.python_tokenizers import PythonTokenizer
from export.tokenizers.tags import TAG

# The token of a byte of a character in UTF-8, but the first.
_CONTINUATION_BYTE = re.compile("<0x[89AB][0-9A-F]>")
_NO_WORD = (-1, -1)


def source_word_spans(
    tokenizer: PythonTokenizer, text: str, ids: Sequence[int]
) -> np.ndarray:
    """Returns the first and the last word of each token: int32 [S, 2].

    `ids` are those of the text, maybe truncated, or none. The end id and tags
    have -1.
    """
    lengths = map(tokenizer.count_visible, text.split())
    spans = _word_spans(lengths, tokenizer.visible_spans(text)[: len(ids) - 1])
    for index, token_id in enumerate(ids[: tokenizer.num_tags]):
        if re.fullmatch(TAG, tokenizer.id_to_token(token_id)):
            spans[index] = _NO_WORD
    return _add_end(spans, ids)


def target_word_spans(
    tokenizer: PythonTokenizer, ids: Sequence[int]
) -> np.ndarray:
    """Returns the words of the decoded text that tokens belong to, as above."""
    ids = [int(each) for each in ids]
    texts = [tokenizer.text(ids[:end]) for end in range(1, len(ids))]
    # A prefix that ends within a character has one U+FFFD for each byte.
    counts = [len("".join(text.split())) for text in texts]
    after = np.minimum.accumulate(counts[::-1])[::-1].tolist()
    offsets = []
    for token_id, before, end in zip(ids, [0, *after], after):
        token = tokenizer.id_to_token(token_id)
        if _CONTINUATION_BYTE.fullmatch(token) and end == before > 0:
            before -= 1
        offsets.append((before, end))
    words = texts[-1].split() if texts else []
    spans = _word_spans(map(len, words), offsets)
    return _add_end(spans, ids)


def _word_spans(lengths, offsets):
    """Returns the words of offsets in the visible characters of all words."""
    words = [i for i, length in enumerate(lengths) for _ in range(length)]
    spans = []
    for before, after in offsets:
        first = min(before, len(words) - 1)
        last = min(max(after - 1, first), len(words) - 1)
        spans.append((words[first], words[last]) if words else _NO_WORD)
    return spans


def _add_end(spans, ids):
    """Returns the spans of ids, with one for the end."""
    spans = [*spans, _NO_WORD][: len(ids)]
    return np.array(spans, np.int32).reshape(-1, 2)
