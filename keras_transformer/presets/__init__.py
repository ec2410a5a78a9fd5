"""Named configurations: each is a dict of TransformerConfig fields."""

from keras_transformer.presets.base import BASE
from keras_transformer.presets.big import BIG, BIG_ENFR
from keras_transformer.presets.multi30k_tiny import MULTI30K_TINY
from keras_transformer.presets.multi30k_tiny_cooldown import (
    MULTI30K_TINY_COOLDOWN,
)
from keras_transformer.presets.parsing import PARSING, PARSING_SEMI
from keras_transformer.presets.table3 import TABLE3
from keras_transformer.presets.tiny import TINY

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
