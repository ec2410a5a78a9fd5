"""The normalization of source text in OPUS-MT's scripts.

Full-width punctuation becomes ASCII, control and unassigned characters become
spaces, and spaces are collapsed, as in the training text of OPUS-MT's models.
Hugging Face's tokenizer skips it.
"""

import re
import unicodedata

OPUS_MT = "opus-mt"
# Regular expressions for both RE2 and Python, applied in order. Like Moses'
# script for the training text, it maps a full-width 1 to a quotation mark.
PUNCTUATION = (
    ("[，、]", ","),
    ("。 *", ". "),
    ("[∶：]", ":"),
    ("[”“《》」「１]", '"'),
    *zip("０２３４５６７８９", "023456789"),
    ("． *", ". "),
    ("…", "..."),
    *zip("？）！（；～’━〈〉【】％", "?)!(;~'-<>[]%"),
)
# Perl's \p{C} without line feeds; RE2's excludes unassigned characters.
CONTROL_IN_RE2 = r"[^\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z}\n]"
SPACES = ((" +", " "), ("^ | $", ""))


def normalize_opus(text):
    """Returns a str as OPUS-MT's scripts normalize it.

    Results differ from RE2's, in a graph, for characters that only one of the
    two Unicode versions has.
    """
    for pattern, replacement in PUNCTUATION:
        text = re.sub(pattern, replacement, text)
    text = "".join(" " if _is_control(each) else each for each in text)
    for pattern, replacement in SPACES:
        text = re.sub(pattern, replacement, text)
    return text


def _is_control(character):
    is_other = unicodedata.category(character).startswith("C")
    return is_other and character != "\n"
