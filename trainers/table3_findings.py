"""Whether our rows differ from base in the direction of the paper's."""

import typing

from trainers.published.table3 import FINDINGS, PAPER

# Differences no larger than these say nothing: the paper's BLEU has one digit
# and no interval, and our perplexities come from one seed.
_EQUAL_BLEU = 0.1
_EQUAL_PERPLEXITY = 0.005

AGREES = "agrees"
DIFFERS = "differs"
TOO_CLOSE = "too close to tell"


class Finding(typing.NamedTuple):
    """What the paper says of a row, and whether it holds here.

    Attributes:
        row: name.
        claim: a sentence.
        perplexity: (paper's difference from base, ours, verdict).
        bleu: the same.
    """

    row: str
    claim: str
    perplexity: tuple
    bleu: tuple


def find(scores):
    """Returns a Finding for each row of the paper that is there beside base.

    Args:
        scores: dict, row's name to its entry of scores.json.
    """
    if "base" not in scores:
        return []
    return [
        Finding(
            name,
            claim,
            _perplexity(name, scores),
            _bleu(name, scores),
        )
        for name, claim in FINDINGS.items()
        if name in scores
    ]


def _perplexity(name, scores):
    ours = [scores[each]["perplexity"]["per_token"] for each in (name, "base")]
    paper = [PAPER[each].perplexity for each in (name, "base")]
    verdict = _verdict(
        _difference(paper),
        _difference(ours),
        _EQUAL_PERPLEXITY * paper[1],
        _EQUAL_PERPLEXITY * ours[1],
    )
    return _difference(paper), _difference(ours), verdict


def _bleu(name, scores):
    ours = [scores[each]["score"] for each in (name, "base")]
    paper = [PAPER[each].bleu for each in (name, "base")]
    intervals = [scores[each]["confidence_95"] for each in (name, "base")]
    half = max(high - low for low, high in intervals) / 2
    verdict = _verdict(_difference(paper), _difference(ours), _EQUAL_BLEU, half)
    return _difference(paper), _difference(ours), verdict


def _difference(pair):
    # The paper's digits are decimal.
    return round(pair[0] - pair[1], 4)


def _verdict(paper, ours, equal_in_paper, equal_here):
    signs = _sign(paper, equal_in_paper), _sign(ours, equal_here)
    if signs[0] == signs[1]:
        return AGREES
    return DIFFERS if signs[1] else TOO_CLOSE


def _sign(difference, equal):
    return (
        0 if abs(difference) <= equal else (difference > 0) - (difference < 0)
    )
