"""Named configurations: dicts of TransformerConfig fields."""

from keras_transformer.presets.paper import (
    BASE,
    BASE_6_2,
    BASE_12_1,
    BIG,
    BIG_ENFR,
    PARSING,
    PARSING_SEMI,
    TABLE3,
)
from keras_transformer.presets.small import (
    MULTI30K_TINY,
    MULTI30K_TINY_COOLDOWN,
    PARSING_SMALL,
    TINY,
    TINY_2_1,
    TINY_4_1,
)

PRESETS = {
    "base": BASE,
    "big": BIG,
    "big-enfr": BIG_ENFR,
    **TABLE3,
    "base-12-1": BASE_12_1,
    "base-6-2": BASE_6_2,
    "tiny": TINY,
    "tiny-4-1": TINY_4_1,
    "tiny-2-1": TINY_2_1,
    "multi30k-tiny": MULTI30K_TINY,
    "multi30k-tiny-cooldown": MULTI30K_TINY_COOLDOWN,
    "parsing": PARSING,
    "parsing-semi": PARSING_SEMI,
    "parsing-small": PARSING_SMALL,
}
