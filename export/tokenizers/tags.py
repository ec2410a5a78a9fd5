"""The tags of languages that a source begins with; without other packages."""

import functools
import re

# Unlike quotations in some languages, a tag has no space inside. Not \s, which
# differs between Python and RE2.
TAG = r"[\t\n\f\r ]*(>>[^<>\t\n\f\r ]+<<)"
# SentencePiece's, with which words begin.
SPACE = "\u2581"


class SourceTags:
    """Base class of tokenizers, whose sources may begin with tags."""

    # Codes of the tags; 1 tag of the target's language, as in Marian, or 2 tags
    # of both, as in M2M-100 and NLLB-200.
    languages: tuple[str, ...] = ()
    num_tags = 0

    @property
    def has_both_tags(self) -> bool:
        """Whether sources have 2 tags: the decoder gets the target's."""
        return self.num_tags == 2


@functools.cache
def tag_pattern(codes: tuple[str, ...]) -> str:
    """Returns TAG for these codes only, also for RE2; () for any."""
    if not codes:
        return TAG
    return rf"[\t\n\f\r ]*(>>(?:{'|'.join(map(re.escape, codes))})<<)"


def split_tags(
    text: str, num_tags: int, pattern: str = TAG
) -> tuple[list[str], str]:
    """Returns up to `num_tags` tags that a text begins with, and the rest."""
    tags: list[str] = []
    while len(tags) < num_tags and (match := re.match(pattern, text)):
        tags.append(match[1])
        text = text[match.end() :]
    return tags, text
