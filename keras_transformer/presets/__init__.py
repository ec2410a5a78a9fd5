"""Named configurations: each is a dict of TransformerConfig fields.

This room imports no other.
"""

from keras_transformer.presets.paper import BASE, BIG, BIG_ENFR
from keras_transformer.presets.parsing import PARSING, PARSING_SEMI
from keras_transformer.presets.small import (
    MULTI30K_TINY,
    MULTI30K_TINY_COOLDOWN,
    TINY,
)
from keras_transformer.presets.table3 import TABLE3

PRESETS = {
    "base": BASE,
    "big": BIG,
    "big-enfr": BIG_ENFR,
    **TABLE3,
    "tiny": TINY,
    "multi30k-tiny": MULTI30K_TINY,
    "multi30k-tiny-cooldown": MULTI30K_TINY_COOLDOWN,
    "parsing": PARSING,
    "parsing-semi": PARSING_SEMI,
}
