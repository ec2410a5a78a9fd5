"""What a translator gives, whichever kind it is."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Translation:
    """One translation.

    Attributes:
        text: of the translation.
        score: log-probability / length penalty.
        alignment: pairs (source word, target word), counted from 0 over the
            words between white space, in ascending order; () where it was
            not asked for.
        source_is_cut: whether the source was longer than the model takes, so
            that only its beginning was translated.
    """

    text: str
    score: float
    alignment: tuple[tuple[int, int], ...] = ()
    source_is_cut: bool = False


# Of text in which there is nothing to translate.
BLANK = Translation("", 0.0)

# The score of what cannot be, and what every possible score lies above.
IMPOSSIBLE = -1e9
LOWEST_SCORE = -1e8
