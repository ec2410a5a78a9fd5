"""Chunks of a translation, words and punctuation, aligned with the source.

The sentence "It's 3.5." has the chunks "It", "'", "s", "3", ".", "5" and ".".
Alignments are of words between white space: here of "It's" and "3.5.".
"""

import bisect
import collections
import itertools
import math
import re
from collections.abc import Iterable

from export.documents.items import ATOM
from export.documents.patterns import MARKS, NO_SPACES

# A character of a script without spaces, a word, or another visible character.
_CHUNK = re.compile(
    rf"[{NO_SPACES}][{MARKS}]*|(?:(?![{NO_SPACES}])[\w{MARKS}])+|[^\s]"
)
WORD = re.compile(rf"[\w{MARKS}{ATOM}]")
_NO_SPACE = re.compile(rf"[{NO_SPACES}]")
# Articles, pronouns and prepositions, which draw false alignments.
_MAX_ARTICLE_LENGTH = 4
# Shorter words may mean another thing in the other language.
_MIN_COPY_LENGTH = 3


class AlignedChunks:
    """Chunks of a translation, aligned with those of its source.

    Chunks are named by their index. In the examples below the source is "the
    <b>old house</b> of Tom" and the translation "das alte Haus von Tom".

    Args:
        source: a sentence without tags.
        target: its translation.
        links: pairs (source word, target word) of white space separated words.
        cuts: offsets of the source at which chunks are cut, those of tags.

    Attributes:
        spans: the (start, end) of each chunk of the translation.
        sources: the chunks of the source that each is aligned with.
    """

    def __init__(
        self,
        source: str,
        target: str,
        links: Iterable[tuple[int, int]],
        cuts: Iterable[int],
    ):
        self._source, self._target = source, target
        source_words = _split_words(_cut(_find_chunks(source), sorted({*cuts})))
        self._source_spans = [*itertools.chain.from_iterable(source_words)]
        firsts = [0, *itertools.accumulate(map(len, source_words))]
        partners: dict[int, list[int]] = collections.defaultdict(list)
        for source_word, target_word in links:
            partners[target_word].append(source_word)
        self.spans: list[tuple[int, int]] = []
        self.sources: list[set[int]] = []
        for index, spans in enumerate(_split_words(_find_chunks(target))):
            words = [(firsts[i], source_words[i]) for i in partners[index]]
            self._add_word(spans, words)
        self._copies = self._align_copies()
        # The inverse of `sources`, which `_align_copies` changes.
        self._targets: list[list[int]] = [[] for _ in self._source_spans]
        for index, sources in enumerate(self.sources):
            for each in sources:
                self._targets[each].append(index)

    def find_aligned(self, start: int, end: int) -> set[int]:
        """Returns the chunks aligned with a part of the source.

        For "old house" it is {1, 2}. These are the chunks of which more than
        half is aligned with the part, or else all that are; for names and
        numbers, as "Tom", their copies alone.
        """
        sources = self._source_range(start, end)
        copies = {
            self._copies.get(source)
            for source in sources
            if WORD.match(self._source, self._source_spans[source][0])
        }
        if copies and None not in copies:
            return copies
        counts = collections.Counter(
            index for source in sources for index in self._targets[source]
        )
        shares = {i: n / len(self.sources[i]) for i, n in counts.items()}
        chunks = {index for index, share in shares.items() if share > 0.5}
        missing = set(sources).difference(*(self.sources[i] for i in chunks))
        # Half is enough if a word has no more: "<b>in</b> the" and "im".
        halves = [index for index, share in shares.items() if share == 0.5]
        chunks |= {each for each in halves if missing & self.sources[each]}
        chunks = self._trim(chunks, sources, shares) or set(counts)
        return self._settle_article(chunks, sources)

    def find_neighbors(self, start: int, end: int) -> list[list[int]]:
        """Returns two lists: chunks aligned with what is before and after."""
        sources = self._source_range(start, end)
        return [
            self._targets[index] if 0 <= index < len(self._targets) else []
            for index in (sources.start - 1, sources.stop)
        ]

    def _source_range(self, start, end):
        """Returns the range of the chunks of a part of the source."""
        return range(
            bisect.bisect_left(self._source_spans, (start, 0)),
            bisect.bisect_left(self._source_spans, (end, 0)),
        )

    def _add_word(self, spans, partners):
        """Adds the chunks of a word of the translation.

        `partners` are the words aligned with it: the index of the first chunk
        of each, and the spans of its chunks.
        """
        start, end = spans[0][0], spans[-1][1]
        for first, source_spans in partners:
            source_start, source_end = source_spans[0][0], source_spans[-1][1]
            if self._source[source_start:source_end] == self._target[start:end]:
                # A copy, as "3.5", is cut as in the source: "<b>3</b>.5".
                shift = start - source_start
                self.spans += [(a + shift, b + shift) for a, b in source_spans]
                self.sources += [{first + i} for i in range(len(source_spans))]
                return
        texts = [self._target[a:b] for a, b in spans]
        sources = [set() for _ in spans]
        for first, source_spans in partners:
            source_texts = [self._source[a:b] for a, b in source_spans]
            for source_index, index in _match_chunks(source_texts, texts):
                sources[index].add(first + source_index)
        self.spans += spans
        self.sources += sources

    def _align_copies(self):
        """Aligns "Tom" with "Tom" and "1999" with "1999", whatever links say.

        Returns a dict of chunks of the source to those of the translation.
        """
        sources = _index_unique(self._source, self._source_spans)
        targets = _index_unique(self._target, self.spans)
        copies = {}
        for word in sources.keys() & targets.keys():
            if _is_name(word):
                copies[sources[word]] = targets[word]
                self.sources[targets[word]] = {sources[word]}
        return copies

    def _settle_article(self, chunks, sources):
        """Adds or drops an article, as "das", at the beginning of chunks.

        Alignments often lack the article of the source. If the part begins with
        it, as "<b>the old house</b>", "das" is added; if it is before the part,
        as in "the <b>old house</b>", "das" is dropped.
        """
        if not chunks:
            return chunks
        first = min(chunks)
        if len(sources) > 1 and self._is_unaligned_article(sources.start):
            has_article = len(chunks) > 1 and self._is_article(first)
            is_added = self._is_article(first - 1) and not has_article
            return chunks | {first - 1} if is_added else chunks
        is_before = self._is_unaligned_article(sources.start - 1)
        if is_before and self._is_article(first):
            rest = chunks - {first}
            others = set().union(*(self.sources[each] for each in rest))
            if self.sources[first] <= others:
                return rest
        return chunks

    def _is_unaligned_article(self, source):
        return (
            0 <= source < len(self._targets)
            and not self._targets[source]
            and is_short(self._source, *self._source_spans[source])
        )

    def _is_article(self, index):
        return index >= 0 and is_short(self._target, *self.spans[index])

    def _trim(self, chunks, sources, shares):
        """Drops chunks at the edges that seem to be aligned by mistake.

        If "von" is aligned with "old", which also has "alte", and with "of", or
        if it is aligned with a word as short as "the", it is dropped.
        """
        if len(chunks) < 3:
            return chunks
        ordered = collections.deque(sorted(chunks))
        counts = collections.Counter(
            source for index in chunks for source in self.sources[index]
        )

        def is_mistake(index):
            inside = [each for each in self.sources[index] if each in sources]
            return all(counts[source] > 1 for source in inside) and (
                shares[index] < 1
                or all(
                    is_short(self._source, *self._source_spans[source])
                    for source in inside
                )
            )

        for pop, edge in ((ordered.popleft, 0), (ordered.pop, -1)):
            while len(ordered) > 1 and is_mistake(ordered[edge]):
                counts.subtract(self.sources[pop()])
        return set(ordered)


def _index_unique(text, spans):
    """Returns a dict of the chunks that occur once to their indices."""
    texts = [text[start:end] for start, end in spans]
    counts = collections.Counter(texts)
    return {each: i for i, each in enumerate(texts) if counts[each] == 1}


def _is_name(word):
    """Whether a chunk may be a name, a number or a placeholder."""
    return (
        (len(word) >= _MIN_COPY_LENGTH and word[0].isupper())
        or word == ATOM
        or word.isdecimal()
    )


def is_short(text: str, start: int, end: int) -> bool:
    """Whether a chunk is a word as short as articles are."""
    return (
        WORD.match(text, start) is not None
        and not _NO_SPACE.match(text, start)
        and end - start <= _MAX_ARTICLE_LENGTH
    )


def _find_chunks(text):
    """Returns the (start, end) of the chunks of a text."""
    return [match.span() for match in _CHUNK.finditer(text)]


def _split_words(spans):
    """Returns the lists of chunks of each white space separated word."""
    words, word_end = [], -1
    for start, end in spans:
        if start > word_end:
            words.append([])
        words[-1].append((start, end))
        word_end = end
    return words


def _cut(spans, cuts):
    """Returns spans, cut at the sorted offsets that are within them."""
    parts, cuts = [], iter(cuts)
    cut = next(cuts, math.inf)
    for start, end in spans:
        while cut < end:
            if start < cut:
                parts.append((start, cut))
                start = cut
            cut = next(cuts, math.inf)
        parts.append((start, end))
    return parts


def _match_chunks(source, target):
    """Returns pairs of indices of the chunks of two aligned words.

    Of '"well-known"' and '"bekannte",', the quotation marks at the beginning
    are a pair, then '"' and ',' at the end, and both words with "bekannte".
    """
    if len(source) == len(target) == 1:
        # The same, sooner for most words.
        is_paired = WORD.match(target[0]) or not WORD.match(source[0])
        return [(0, 0)] if is_paired else []
    shorter = min(len(source), len(target))
    num_first = _count_equal(source, target, shorter)
    num_last = _count_equal(source[::-1], target[::-1], shorter - num_first)
    source_end, target_end = len(source) - num_last, len(target) - num_last
    pairs = [(index, index) for index in range(num_first)]
    pairs += [(source_end + i, target_end + i) for i in range(num_last)]
    sources, targets = (
        [i for i in range(num_first, end) if WORD.match(texts[i])]
        for texts, end in ((source, source_end), (target, target_end))
    )
    # A word whose match is punctuation is aligned with the whole.
    sources = sources or [*range(len(source))]
    # Words between are matched in proportion: of four with two, the first two
    # with the first.
    for number, index in enumerate(targets):
        start = number * len(sources) // len(targets)
        end = -(-(number + 1) * len(sources) // len(targets))
        pairs += [(each, index) for each in sources[start:end]]
    return pairs


def _count_equal(source, target, limit):
    """Returns how many chunks begin both that are equal or punctuation."""
    count = 0
    while count < limit and (
        source[count] == target[count]
        or not (WORD.match(source[count]) or WORD.match(target[count]))
    ):
        count += 1
    return count
