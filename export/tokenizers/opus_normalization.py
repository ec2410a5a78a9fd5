"""The text normalization of OPUS-MT's scripts for sources.

Full-width punctuation becomes ASCII, control and unassigned characters become
spaces, and spaces are collapsed, as in the training text of OPUS-MT's models.
Hugging Face's tokenizer skips it.
"""

import re
import unicodedata

# Its name in a vocabulary.
OPUS_MT = "opus-mt"
# Regular expressions of RE2 and of Python, applied in this order. Moses' script
# for the training text makes a quotation mark of the digit one, too.
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
# Perl's \p{C} but for the end of a line; RE2's has no unassigned characters.
CONTROL_IN_RE2 = r"[^\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z}\n]"
SPACES = ((" +", " "), ("^ | $", ""))


def normalize_opus(text):
    """Returns a str as OPUS-MT's scripts normalize it.

    Unicode's version is Python's here, and RE2's in a graph: of characters
    that only one of them knows, the results differ.
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
