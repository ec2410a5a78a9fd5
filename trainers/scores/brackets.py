"""EVALB's scores of trees, by the rules of its parameter file COLLINS.prm.

A bracket is a label over a stretch of words. What counts is how many brackets
two trees share: labels and ends equal, one that is there twice counted twice,
summed over all sentences before precision and recall are taken. The brackets
of single words with their tags do not count, nor does TOP. Words tagged as
punctuation are left out before ends are counted, as are brackets over nothing
else; ADVP and PRT are one label.

Where a parser tags a word as punctuation that the gold tree does not, or the
other way round, the words that are left differ, and EVALB leaves the whole
sentence out of its sums. A parser that tags by itself would be the better off
for it. Here such a sentence counts, without the words that the gold tree has
as punctuation; how EVALB sees it stands beside.

Black et al. 1991, "A Procedure for Quantitatively Comparing the Syntactic
Coverage of English Grammars"; Sekine and Collins 1997, EVALB.
"""

import collections
import dataclasses
import functools

import numpy as np
from sacrebleu.significance import estimate_ci

from export.errors import InputError
from export.parsing.trees import OPEN, WORD, visits
from trainers.scores.metrics import BOOTSTRAP_SAMPLES, Interval

# EVALB counts words for this as they stand, punctuation too.
SHORT = 40
SIGNATURE = (
    "brackets:labelled multisets|prm:COLLINS|left out:TOP , : `` '' .|"
    "equal:ADVP PRT|punctuation:gold's where tags differ"
)

_DELETED = frozenset(["TOP", "-NONE-", ",", ":", "``", "''", "."])
_EQUAL = {"PRT": "ADVP"}
_SEED = 12345


@dataclasses.dataclass(frozen=True)
class Counts:
    """What was counted over sentences, and the scores, from 0 to 100.

    Attributes:
        sentences: with a word that is no punctuation.
        matched: brackets that both trees have.
        gold: brackets of the gold trees.
        predicted: brackets of the predicted trees.
        words: that are no punctuation.
        tagged: words of these with the gold tag.
        crossing: predicted brackets that hold a part of a gold one and
            something beside it.
        complete: sentences whose brackets are all those of gold.
    """

    sentences: int
    matched: int
    gold: int
    predicted: int
    words: int
    tagged: int
    crossing: int
    complete: int

    @property
    def precision(self):
        """Share of the predicted brackets that are right."""
        return _share(self.matched, self.predicted)

    @property
    def recall(self):
        """Share of the gold brackets that were found."""
        return _share(self.matched, self.gold)

    @property
    def f1(self):
        """Harmonic mean of precision and recall."""
        return float(_f1(self.matched, self.gold, self.predicted))

    @property
    def complete_match(self):
        """Share of the sentences whose brackets are all right."""
        return _share(self.complete, self.sentences)

    @property
    def tagging_accuracy(self):
        """Share of the words with the gold tag."""
        return _share(self.tagged, self.words)

    @property
    def average_crossing(self):
        """Crossing brackets a sentence."""
        return self.crossing / max(1, self.sentences)

    @property
    def line(self):
        """The scores as they are printed."""
        return (
            f"F1 = {self.f1:.2f} (precision {self.precision:.2f}, recall "
            f"{self.recall:.2f}), complete match {self.complete_match:.2f}, "
            f"tags {self.tagging_accuracy:.2f}, crossing "
            f"{self.average_crossing:.2f} a sentence, over {self.sentences:,} "
            "sentences"
        )

    def record(self):
        """Returns scores and counts as a dict for scores.json."""
        return {
            "f1": round(self.f1, 4),
            "precision": round(self.precision, 4),
            "recall": round(self.recall, 4),
            "complete_match": round(self.complete_match, 4),
            "tagging_accuracy": round(self.tagging_accuracy, 4),
            "average_crossing": round(self.average_crossing, 4),
            **dataclasses.asdict(self),
        }


@dataclasses.dataclass(frozen=True)
class BracketScores:
    """Scores of a set of predicted trees.

    Attributes:
        overall: Counts of all sentences.
        short: Counts of those whose gold trees have at most `SHORT` words.
        interval: Interval of the F1 of all.
        evalb: Counts of the sentences that EVALB counts; the same as `overall`
            where nothing was tagged as punctuation by one side only.
        evalb_short: those of them in `short`.
        signature: the rules.
    """

    overall: Counts
    short: Counts
    interval: Interval
    evalb: Counts
    evalb_short: Counts
    signature: str = SIGNATURE

    @property
    def lines(self):
        """What is printed: a list of str."""
        lines = [
            f"All lengths: {self.overall.line}",
            f"95 % of resampled sets: F1 {self.interval.low:.2f} to "
            f"{self.interval.high:.2f} ({self.interval.how})",
            f"At most {SHORT} words: {self.short.line}",
            f"Rules: {self.signature}",
        ]
        left_out = self.overall.sentences - self.evalb.sentences
        if left_out:
            lines.append(
                f"EVALB leaves out {left_out:,} of these sentences, where "
                "punctuation was tagged as a word or a word as punctuation: "
                f"F1 = {self.evalb.f1:.2f} without them, "
                f"{self.evalb_short.f1:.2f} at most {SHORT} words."
            )
        return lines

    def record(self):
        """Returns the scores as a dict for scores.json."""
        return {
            "metric": "bracket F1",
            "score": round(self.overall.f1, 4),
            "signature": self.signature,
            "all": self.overall.record(),
            f"at_most_{SHORT}_words": self.short.record(),
            "confidence_95": [
                round(self.interval.low, 4),
                round(self.interval.high, 4),
            ],
            "bootstrap": self.interval.how,
            "evalb": self.evalb.record(),
            f"evalb_at_most_{SHORT}_words": self.evalb_short.record(),
        }


def score_brackets(predicted, gold):
    """Scores trees.

    Args:
        predicted: list of nltk.Tree, normalised (`export.parsing.trees`).
        gold: list of nltk.Tree, normalised, over the same words.

    Returns:
        BracketScores.

    Raises:
        InputError: there are not as many of the one as of the other, none at
            all, or two trees have other words.
    """
    if len(predicted) != len(gold) or not gold:
        raise InputError(
            f"There are {len(predicted):,} predicted trees for {len(gold):,} "
            "gold ones; there must be one for each."
        )
    rows, short, agreed = [], [], []
    for number, (tree, right_tree) in enumerate(zip(predicted, gold), 1):
        ours, right = _parts(tree), _parts(right_tree)
        if ours.words != right.words:
            raise InputError(
                f"The predicted tree of sentence {number:,} has other words "
                f"than its gold tree: {_first_difference(ours, right)}; both "
                "must be over the same words."
            )
        agreed.append(ours.kept_words() == right.kept_words())
        ours_kept = ours.kept if agreed[-1] else right.kept
        rows.append(_compared(ours, ours_kept, right, right.kept))
        short.append(len(right.words) <= SHORT)
    rows, short, agreed = map(np.array, (rows, short, agreed))
    return BracketScores(
        _summed(rows),
        _summed(rows[short]),
        _interval(rows),
        _summed(rows[agreed]),
        _summed(rows[short & agreed]),
    )


@dataclasses.dataclass(frozen=True)
class _Parts:
    """A tree as lists.

    Attributes:
        words: list of str.
        tags: list of str, one a word.
        brackets: list of (label, first word, word after the last).
    """

    words: list
    tags: list
    brackets: list

    @functools.cached_property
    def kept(self):
        """Tells of each word whether it is no punctuation: a list of bool."""
        return [tag not in _DELETED for tag in self.tags]

    def kept_words(self):
        return [word for word, kept in zip(self.words, self.kept) if kept]


def _parts(tree):
    parts = _Parts([], [], [])
    begun = []
    for event, node in visits(tree):
        if event is OPEN:
            begun.append(len(parts.words))
        elif event is WORD:
            parts.words.append(node[0])
            parts.tags.append(node.label())
        else:
            span = (node.label(), begun.pop(), len(parts.words))
            parts.brackets.append(span)
    return parts


def _first_difference(ours, right):
    for place, (one, other) in enumerate(zip(ours.words, right.words), 1):
        if one != other:
            return f"word {place} is {one!r} for {other!r}"
    return f"{len(ours.words)} for {len(right.words)}"


def _compared(ours, ours_kept, right, right_kept):
    """Counts one sentence: a tuple of int, in the order of Counts."""
    predicted = _counted_brackets(ours, ours_kept)
    gold = _counted_brackets(right, right_kept)
    tags = _counted_tags(right, right_kept)
    pairs = zip(_counted_tags(ours, ours_kept), tags)
    return (
        int(bool(tags)),
        (gold & predicted).total(),
        gold.total(),
        predicted.total(),
        len(tags),
        sum(one == other for one, other in pairs),
        _crossing(predicted, gold),
        int(bool(tags) and predicted == gold),
    )


def _counted_tags(parts, kept):
    return [
        _EQUAL.get(tag, tag) for tag, stays in zip(parts.tags, kept) if stays
    ]


def _counted_brackets(parts, kept):
    """Returns a Counter of (label, start, end), places among kept words."""
    places = [0]
    for stays in kept:
        places.append(places[-1] + stays)
    spans = (
        (_EQUAL.get(label, label), places[start], places[end])
        for label, start, end in parts.brackets
        if label not in _DELETED
    )
    return collections.Counter(span for span in spans if span[1] < span[2])


def _crossing(predicted, gold):
    """How many predicted brackets overlap a gold one without nesting."""
    limits = {span[1:] for span in gold}
    return sum(
        count
        for (_, start, end), count in predicted.items()
        if (start, end) not in limits
        and any(
            first < start < last < end or start < first < end < last
            for first, last in limits
        )
    )


def _summed(rows):
    return Counts(
        *map(int, rows.reshape(-1, len(dataclasses.fields(Counts))).sum(axis=0))
    )


def _interval(rows):
    """Resamples sentences (Koehn 2004) and takes the F1 of each set."""
    brackets = rows[:, 1:4]
    generator = np.random.default_rng(_SEED)
    sums = [
        brackets[generator.integers(len(rows), size=len(rows))].sum(axis=0)
        for _ in range(BOOTSTRAP_SAMPLES)
    ]
    return Interval.around(*estimate_ci(_f1(*np.transpose(sums))), _SEED)


def _share(part, whole):
    return 100 * part / max(1, whole)


def _f1(matched, gold, predicted):
    return 200 * matched / np.maximum(1, gold + predicted)
