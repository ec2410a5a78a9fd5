"""What stands between two sentences, as their script has it."""

import re

from export.documents.flow import LINE_END, cut_items
from export.documents.items import (
    TAG_STARTS,
    Item,
    Kind,
    join_source_raws,
    join_texts,
)
from export.documents.patterns import CHINESE, NO_SPACES, WIDE_MARKS

_CHINESE, _NO_SPACE = re.compile(f"[{CHINESE}]"), re.compile(f"[{NO_SPACES}]")
# Of India, Ethiopia, Arabic, Burmese and Khmer: they need no space after them.
_FULL_STOP = re.compile("[\u0964\u0965\u1362\u06d4\u104b\u17d4]\\s*$")
_WIDE_MARK = re.compile(f"[{WIDE_MARKS}]")


def write_gap(
    items: list[Item], before: tuple[str, str], after: tuple[str, str]
) -> str:
    """Returns the raw text between two sentences, with or without a space.

    `items` are those between, `before` and `after` pairs of the text of a
    sentence and of its translation. A space is added where only the source has
    a script without spaces between sentences, and removed where only the
    translation has such a script. Line ends stay.
    """
    text = join_texts(items)
    texts = (*before, *after)
    if all(map(str.isascii, texts)) or not all(texts):
        return join_source_raws(items)
    visible = text.strip()
    if visible:
        # A sentence that stays as it is, such as a number.
        start = text.index(visible)
        span = start, start + len(visible)
        (left, right), (middle,) = cut_items(items, [span])
        first = write_gap(left, before, (visible, visible))
        last = write_gap(right, (visible, visible), after)
        return f"{first}{join_source_raws(middle.items)}{last}"
    (source, target), (next_source, next_target) = before, after
    is_unspaced = _has_no_space(target, next_target, _CHINESE)
    if is_unspaced and not _has_no_space(source, next_source, _CHINESE):
        return join_source_raws([item for item in items if not _is_space(item)])
    has_space = any(
        item.kind is Kind.SPACE or (item.text and item.kind is not Kind.OBJECT)
        for item in items
    )
    if (
        has_space
        or is_unspaced
        or not (
            _FULL_STOP.search(source)
            or _has_no_space(source, next_source, _NO_SPACE)
        )
    ):
        return join_source_raws(items)
    # End tags before the space, start tags after it, and emoji between two.
    index = 0
    while index < len(items) and items[index].kind is Kind.CLOSE:
        index += 1
    raw = f"{join_source_raws(items[:index])} {join_source_raws(items[index:])}"
    is_cut = index < len(items)
    ends_with_word = is_cut and not items[-1].raw.startswith(TAG_STARTS)
    return f"{raw} " if ends_with_word else raw


def _is_space(item):
    """Whether an item is space without a line end, tag or emoji."""
    is_space = item.text.isspace()
    is_space &= not any(start in item.raw for start in TAG_STARTS)
    is_space &= item.kind is not Kind.OBJECT
    return is_space and not LINE_END.search(item.raw)


def _has_no_space(text, following, letter):
    """Whether two sentences of scripts with such letters have no space."""
    if not (letter.search(text) or letter.search(following)):
        return False
    # The last and the first character, and letter.
    last, first = text.rstrip()[-1:], following.lstrip()[:1]
    last_letter = next(filter(str.isalpha, reversed(text)), "")
    first_letter = next(filter(str.isalpha, following), "")
    is_wide = _WIDE_MARK.match(last)
    return bool(
        (is_wide or letter.match(last_letter))
        and (is_wide or _WIDE_MARK.match(first) or letter.match(first_letter))
    )
