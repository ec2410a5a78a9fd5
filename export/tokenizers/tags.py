"""The tags of languages that a source begins with; without other packages."""

import re

# Unlike quotations in some languages, a tag has no space inside. Not \s, which
# differs between Python and RE2.
TAG = r"[\t\n\f\r ]*(>>[^<>\t\n\f\r ]+<<)"
# SentencePiece's space, with which tags in a vocabulary of trainers.prepare
# begin. A text of a tag only is blank, and one after a tag the same with and
# without a space between them. For both RE2 and Python, in this order.
SPACE = "\u2581"
TAG_RULES = (
    (rf"^{TAG}[\t\n\f\r {SPACE}]*$", ""),
    (rf"^{TAG}[\t\n\f\r {SPACE}]*", rf"\1{SPACE}"),
)


def split_tags(text, num_tags):
    """Returns up to `num_tags` tags that a text begins with, and the rest."""
    tags = []
    while len(tags) < num_tags and (match := re.match(TAG, text)):
        tags.append(match[1])
        text = text[match.end() :]
    return tags, text
