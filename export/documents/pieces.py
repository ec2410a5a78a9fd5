"""Pieces of a translation, words and punctuation, aligned with the source."""

import bisect
import collections
import itertools
import math
import re

from export.documents.items import ATOM
from export.documents.patterns import MARKS, NO_SPACES

# A character of a script without spaces, a word, or another visible character.
_PIECE = re.compile(
    rf"[{NO_SPACES}][{MARKS}]*|(?:(?![{NO_SPACES}])[\w{MARKS}])+|[^\s]"
)
WORD = re.compile(rf"[\w{MARKS}{ATOM}]")
_NO_SPACE = re.compile(rf"[{NO_SPACES}]")
# Articles, pronouns and prepositions, which draw false alignments.
_MAX_ARTICLE_LENGTH = 4
# Shorter words may mean another thing in the other language.
_MIN_COPY_LENGTH = 3


class AlignedPieces:
    """Pieces of a translation, aligned with those of its source.

    Args:
        source: str.
        target: its translation.
        links: pairs (source word, target word) of white space separated words.
        cuts: offsets of the source that are between two pieces.

    Attributes:
        pieces: list of (start, end) in the translation.
        origins: of each, the set of the pieces of the source (their indices)
            that it is aligned with.
    """

    def __init__(self, source, target, links, cuts):
        self._source, self._target = source, target
        source_words = _split_words(_cut(_pieces(source), sorted({*cuts})))
        self._source_pieces = [*itertools.chain.from_iterable(source_words)]
        firsts = [0, *itertools.accumulate(map(len, source_words))]
        partners = collections.defaultdict(list)
        for source_word, target_word in links:
            partners[target_word].append(source_word)
        # Of each piece of the translation: its place, and the indices of the
        # pieces of the source that it is aligned with.
        self.pieces, self.origins = [], []
        for index, spans in enumerate(_split_words(_pieces(target))):
            self._add_word(
                spans,
                [
                    (firsts[each], source_words[each])
                    for each in partners[index]
                ],
            )
        self._copies = self._align_copies()
        # Of each piece of the source, those aligned with it.
        self._targets = [[] for _ in self._source_pieces]
        for index, origins in enumerate(self.origins):
            for origin in origins:
                self._targets[origin].append(index)

    def aligned(self, start, end):
        """Returns the pieces aligned with a part of the source, a set.

        Those of which most is, or else any part.
        """
        sources = self._sources(start, end)
        counts = collections.Counter(
            index for source in sources for index in self._targets[source]
        )
        copies = {
            self._copies.get(source)
            for source in sources
            if WORD.match(self._source, self._source_pieces[source][0])
        }
        if copies and None not in copies:
            return copies
        shares = {
            index: count / len(self.origins[index])
            for index, count in counts.items()
        }
        mostly = {index for index, share in shares.items() if share > 0.5}
        covered = {each for index in mostly for each in self.origins[index]}
        # Half of a piece counts if it is all that there is of a word.
        mostly |= {
            index
            for index, share in shares.items()
            if share == 0.5
            and any(
                each in sources and each not in covered
                for each in self.origins[index]
            )
        }
        pieces = self._trim(mostly, sources, shares) or set(counts)
        return self._settle_article(pieces, sources)

    def neighbors(self, start, end):
        """Returns two lists: pieces aligned with what is before and after."""
        sources = self._sources(start, end)
        return [
            self._targets[index] if 0 <= index < len(self._targets) else []
            for index in (sources.start - 1, sources.stop)
        ]

    def _sources(self, start, end):
        """Returns a range of the pieces of a part of the source."""
        return range(
            bisect.bisect_left(self._source_pieces, (start, 0)),
            bisect.bisect_left(self._source_pieces, (end, 0)),
        )

    def _add_word(self, spans, partners):
        """Adds the pieces of a word; `partners` are numbered pieces too."""
        start, end = spans[0][0], spans[-1][1]
        for first, source_spans in partners:
            source_start, source_end = source_spans[0][0], source_spans[-1][1]
            if self._source[source_start:source_end] == self._target[start:end]:
                # A name or number: its parts are those of the source.
                shift = start - source_start
                self.pieces += [(a + shift, b + shift) for a, b in source_spans]
                self.origins += [
                    {first + number} for number in range(len(source_spans))
                ]
                return
        texts = [self._target[a:b] for a, b in spans]
        origins = [set() for _ in spans]
        for first, source_spans in partners:
            source_texts = [self._source[a:b] for a, b in source_spans]
            for source_index, index in _match(source_texts, texts):
                origins[index].add(first + source_index)
        self.pieces += spans
        self.origins += origins

    def _align_copies(self):
        """Aligns names and numbers with their copies, whatever links say.

        Returns a dict of pieces of the source to those of the translation.
        """
        sources = _unique_pieces(self._source, self._source_pieces)
        targets = _unique_pieces(self._target, self.pieces)
        copies = {}
        for word in sources.keys() & targets.keys():
            if _is_name(word):
                copies[sources[word]] = targets[word]
                self.origins[targets[word]] = {sources[word]}
        return copies

    def _settle_article(self, pieces, sources):
        """Adds or drops a short word before the others.

        It is the article (or the like) of the source without a piece, at the
        beginning of the part or before it, that decides.
        """
        if not pieces:
            return pieces
        first = min(pieces)
        if len(sources) > 1 and self._is_lost_article(sources.start):
            has_article = len(pieces) > 1 and self._fits(first)
            is_added = self._fits(first - 1) and not has_article
            return pieces | {first - 1} if is_added else pieces
        origins = self.origins[first]
        if self._is_lost_article(sources.start - 1) and self._fits(first):
            others = [self.origins[each] for each in pieces - {first}]
            if all(
                any(origin in each for each in others) for origin in origins
            ):
                return pieces - {first}
        return pieces

    def _is_lost_article(self, source):
        return (
            0 <= source < len(self._targets)
            and not self._targets[source]
            and is_short(self._source, *self._source_pieces[source])
        )

    def _fits(self, index):
        return index >= 0 and is_short(self._target, *self.pieces[index])

    def _trim(self, pieces, sources, shares):
        """Drops pieces at the edges that seem to be aligned by mistake.

        What they are aligned with has other pieces, and it is short, as
        articles are, or they are also aligned with something outside.
        """
        if len(pieces) < 3:
            return pieces
        ordered = collections.deque(sorted(pieces))
        counts = collections.Counter(
            origin for index in pieces for origin in self.origins[index]
        )

        def is_mistake(index):
            origins = [each for each in self.origins[index] if each in sources]
            return all(counts[origin] > 1 for origin in origins) and (
                shares[index] < 1
                or all(
                    is_short(self._source, *self._source_pieces[origin])
                    for origin in origins
                )
            )

        for pop, edge in ((ordered.popleft, 0), (ordered.pop, -1)):
            while len(ordered) > 1 and is_mistake(ordered[edge]):
                counts.subtract(self.origins[pop()])
        return set(ordered)


def _unique_pieces(text, pieces):
    """Returns the indices of the pieces whose text occurs once, a dict."""
    texts = [text[start:end] for start, end in pieces]
    counts = collections.Counter(texts)
    return {
        each: index for index, each in enumerate(texts) if counts[each] == 1
    }


def _is_name(word):
    """Whether a piece may be a name, a number or a placeholder."""
    return (
        (len(word) >= _MIN_COPY_LENGTH and word[0].isupper())
        or word == ATOM
        or word.isdecimal()
    )


def is_short(text, start, end):
    """Whether a piece is a word as short as articles are."""
    return (
        WORD.match(text, start) is not None
        and not _NO_SPACE.match(text, start)
        and end - start <= _MAX_ARTICLE_LENGTH
    )


def word_spans(text):
    """Returns the (start, end) of the words of a text."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def _pieces(text):
    """Returns the (start, end) of the pieces of a text."""
    return [match.span() for match in _PIECE.finditer(text)]


def _split_words(pieces):
    """Returns the lists of pieces of each white space separated word."""
    words, word_end = [], -1
    for start, end in pieces:
        if start > word_end:
            words.append([])
        words[-1].append((start, end))
        word_end = end
    return words


def _cut(pieces, cuts):
    """Returns pieces, cut at the sorted offsets that are within them."""
    parts, cuts = [], iter(cuts)
    cut = next(cuts, math.inf)
    for start, end in pieces:
        while cut < end:
            if start < cut:
                parts.append((start, cut))
                start = cut
            cut = next(cuts, math.inf)
        parts.append((start, end))
    return parts


def _match(source, target):
    """Returns pairs of indices of the pieces of two aligned words.

    Punctuation at the beginning is matched with such, and that at the end;
    what is between, in proportion.
    """
    if len(source) == len(target) == 1:
        # The same, sooner for most words.
        is_paired = WORD.match(target[0]) or not WORD.match(source[0])
        return [(0, 0)] if is_paired else []
    pairs = []
    first, last = 0, min(len(source), len(target))

    def is_pair(one, other):
        if one == other:
            return True
        return not (WORD.match(one) or WORD.match(other))

    while first < last and is_pair(source[first], target[first]):
        pairs.append((first, first))
        first += 1
    ends = 0
    while ends < last - first and is_pair(
        source[len(source) - 1 - ends], target[len(target) - 1 - ends]
    ):
        pairs.append((len(source) - 1 - ends, len(target) - 1 - ends))
        ends += 1
    words = [
        [i for i in range(first, len(texts) - ends) if WORD.match(texts[i])]
        for texts in (source, target)
    ]
    sources, targets = words
    # A word whose match is punctuation is aligned with the whole.
    sources = sources or [*range(len(source))]
    for number, index in enumerate(targets):
        start = number * len(sources) // len(targets)
        end = -(-(number + 1) * len(sources) // len(targets))
        pairs += [(each, index) for each in sources[start:end]]
    return pairs
