"""What a translator gives, whichever kind it is."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Translation:
    """One translation.

    Attributes:
        text: of the translation.
        score: log-probability / length penalty.
    """

    text: str
    score: float
