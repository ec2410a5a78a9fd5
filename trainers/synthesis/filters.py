"""What is left out of a shard, and how it is counted."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Counts:
    """What became of lines; all but `read` add up to `read`.

    Attributes:
        read: lines.
        blank: lines without text.
        too_long: lines of more pieces than `max_pieces`.
        unanswered: lines to which the models say nothing.
        unlike_lengths: pairs beyond `max_ratio`.
        unlikely: pairs below `min_score`.
        kept: pairs.
    """

    read: int = 0
    blank: int = 0
    too_long: int = 0
    unanswered: int = 0
    unlike_lengths: int = 0
    unlikely: int = 0
    kept: int = 0

    def __add__(self, other):
        mine, others = dataclasses.astuple(self), dataclasses.astuple(other)
        return Counts(*map(sum, zip(mine, others)))


def reason_before(text, pieces, options):
    """Returns why a line is not translated, a field of Counts, or None.

    Args:
        text: of the line.
        pieces: how many it has, the end counted; None for more than the
            models take.
        options: SynthesisOptions.
    """
    if not text:
        return "blank"
    if pieces is None or pieces > options.max_pieces:
        return "too_long"
    return None


def reason_after(answer, pieces, answer_pieces, options):
    """Returns why an answer is left out, a field of Counts, or None.

    Args:
        answer: text.
        pieces: of the line, the end counted.
        answer_pieces: of the answer, likewise.
        options: SynthesisOptions.
    """
    if not answer:
        return "unanswered"
    if options.max_ratio is not None:
        # Without the ends: of short sides these would be most of it.
        short, long = sorted((pieces - 1, answer_pieces - 1))
        if long > options.max_ratio * short:
            return "unlike_lengths"
    return None


def is_unlikely(log_probability, answer_pieces, options):
    """Returns whether an answer is below the options' score.

    Args:
        log_probability: of the answer.
        answer_pieces: how many it has, the end counted.
        options: SynthesisOptions, with a `min_score`.
    """
    return log_probability < options.min_score * answer_pieces
