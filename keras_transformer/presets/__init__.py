"""Named configurations: each is a dict of TransformerConfig fields.

This room imports no other.
"""

from keras_transformer.presets.paper import (
    BASE,
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
)

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
    "parsing-small": PARSING_SMALL,
}
