"""Puts tags and white space of a sentence into its translation."""

import bisect
import collections
import re

from export.documents.flow import ATOM, MARKS, NO_SPACE, Kind

# A character of a script without spaces, a word, or another visible character.
_PIECE = re.compile(
    rf"[{NO_SPACE}][{MARKS}]*|(?:(?![{NO_SPACE}])[\w{MARKS}])+|[^\s]"
)
_WORD = re.compile(rf"[\w{MARKS}{ATOM}]")
_NO_SPACE = re.compile(rf"[{NO_SPACE}]")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


class _Node:
    """An element, an empty tag, or the part of an element in a sentence.

    Attributes:
        open: its start tag; "" if that is in an earlier sentence.
        close: its end tag; "" if that is in a later sentence.
        start: offset of its beginning in the source.
        end: offset of its end.
        left: index of its first piece of the translation.
        right: index after its last piece.
        anchor: "left" if it must begin with its parent, "right" if it must end
            with it, else "".
        is_word: whether spaces separate it from words.
    """

    __slots__ = (
        *("open", "close", "start", "end", "left", "right", "anchor"),
        *("is_word", "children"),
    )

    def __init__(self, start, open_tag="", anchor="", is_word=False):
        self.open, self.close, self.anchor = open_tag, "", anchor
        self.is_word = is_word
        self.start = self.end = start
        self.left = self.right = 0
        self.children = []


def place_items(items, target, links, document_format):
    """Returns a translation with the marks, spaces and atoms of its source.

    `items` are those of the sentence, `target` is its translation, with U+FFFC
    for each atom, and `links` are pairs (source word, target word) of white
    space separated words, () if there are no marks. Every item occurs once,
    and elements are well nested. An element is put around the pieces of the
    translation (words and punctuation) most of which are aligned with what it
    had; one of which none is, and empty tags, are put between the pieces that
    are aligned with its neighbours.
    """
    source = "".join(item.text for item in items)
    edits = _place_spaces(items, source, target)
    if any(item.is_mark for item in items):
        root = _build_tree(items, len(source))
        placer = _Placer(root, source, target, links)
        edits += placer.place()
    edits += _order_atoms(items, source, target, links)
    # Tags at the beginning of a space come before it.
    edits.sort(key=lambda edit: edit[:2])
    encode = _encoder(items, document_format)
    output, position = [], 0
    for start, end, raw in edits:
        output += [encode(target[position:start]), raw]
        position = max(position, end)
    return "".join([*output, encode(target[position:])])


def _encoder(items, document_format):
    """Returns a function that writes text as the document does.

    The first occurrence of a character is written as its first one in the
    source, for example as an entity, the second as its second, and so on.
    """
    if document_format == "text":
        return str
    special = {item.text for item in items if item.raw != item.text}
    special = {text for text in special if len(text) == 1 and text != ATOM}
    spellings = {char: [escape] for char, escape in _ESCAPES.items()}
    pattern = re.compile(f"[{re.escape(''.join({*special, *_ESCAPES}))}]")
    found = collections.defaultdict(list)
    for item in items:
        if item.kind is Kind.TEXT and item.raw != item.text:
            found[item.text].append(item.raw)
        elif item.kind is Kind.TEXT:
            for char in pattern.findall(item.text):
                found[char].append(_ESCAPES.get(char, char))
    spellings |= found
    counts = collections.Counter()

    def encode(match):
        char = match[0]
        counts[char] += 1
        options = spellings[char]
        return options[min(counts[char], len(options)) - 1]

    return lambda text: pattern.sub(encode, text)


def _place_spaces(items, source, target):
    """Returns edits that write the spaces of the source.

    Each takes the place of the space of the translation after as great a part
    of the text as in the source, in the same order.
    """
    spaces, offset = [], 0
    for item in items:
        if item.kind is Kind.SPACE:
            spaces.append((offset, item.raw))
        offset += len(item.text)
    if not spaces:
        return []
    gaps = [match.span() for match in re.finditer(r"\s+", target)]
    gaps += [
        (match.start(), match.start())
        for match in _NO_SPACE.finditer(target)
        if match.start() and not target[match.start() - 1].isspace()
    ]
    gaps.sort()
    starts = [start for start, _ in gaps]
    edits, first = [], 0
    for index, (offset, raw) in enumerate(spaces):
        # The last gap that leaves one for each later space.
        last = len(gaps) - (len(spaces) - index)
        if first > last:
            edits.append((len(target), len(target), raw))
            continue
        wanted = offset * len(target) / len(source)
        after = bisect.bisect_left(starts, wanted, first, last + 1)
        nearest = min(
            range(max(after - 1, first), min(after, last) + 1),
            key=lambda gap: abs(starts[gap] - wanted),
        )
        edits.append((*gaps[nearest], raw))
        first = nearest + 1
    return edits


def _order_atoms(items, source, target, links):
    """Returns edits that write the atoms, aligned or else in order."""
    atoms = [item.raw for item in items if item.kind is Kind.ATOM]
    places = [match.start() for match in re.finditer(ATOM, target)]
    order = [*range(len(atoms))]
    if links and len(atoms) > 1:
        source_words, target_words = _word_spans(source), _word_spans(target)
        origins = collections.defaultdict(list)
        for number, match in enumerate(re.finditer(ATOM, source)):
            origins[_find(source_words, match.start())].append(number)
        aligned = []
        for place in places:
            word = _find(target_words, place)
            aligned += [
                number
                for source_word, target_word in links
                if target_word == word
                for number in origins.get(source_word, ())
            ]
        if sorted(aligned) == order:
            order = aligned
    return [
        (place, place + 1, atoms[number])
        for place, number in zip(places, order)
    ]


def _word_spans(text):
    return [match.span() for match in re.finditer(r"\S+", text)]


def _find(spans, offset):
    """Returns the index of the span that has an offset."""
    return bisect.bisect(spans, (offset, float("inf"))) - 1


def _build_tree(items, length):
    """Returns the root _Node of the marks."""
    root = _Node(0)
    root.end = length
    stack, offset = [root], 0
    elements = []
    for item in items:
        if item.is_mark and item.kind is not Kind.CLOSE:
            is_word = item.kind is Kind.REMOVED
            node = _Node(offset, item.raw, is_word=is_word)
            stack[-1].children.append(node)
            if item.kind is Kind.OPEN:
                stack.append(node)
                elements.append(item.element)
        elif item.kind is Kind.CLOSE:
            if elements and elements[-1] is item.element:
                node = stack.pop()
                elements.pop()
            else:
                # It began in an earlier sentence.
                node = _Node(0, anchor="left")
                node.children, root.children = root.children, [node]
            node.end, node.close = offset, item.raw
        offset += len(item.text)
    for node in stack[1:]:
        node.end, node.anchor = length, "right"
    return root


class _Placer:
    """Finds the pieces of a translation that each element is put around."""

    def __init__(self, root, source, target, links):
        self._root, self._source, self._target = root, source, target
        self._cuts = sorted(
            {edge for node in _walk(root) for edge in (node.start, node.end)}
        )
        source_words, target_words = _word_spans(source), _word_spans(target)
        self._source_pieces, by_source_word = [], []
        for start, end in source_words:
            first = len(self._source_pieces)
            self._source_pieces += self._cut(_pieces(source, start, end))
            by_source_word.append(range(first, len(self._source_pieces)))
        partners = collections.defaultdict(list)
        for source_word, target_word in links:
            partners[target_word].append(source_word)
        # Of each piece of the translation: its place, and the indices of the
        # pieces of the source that it is aligned with.
        self._pieces, self._origins = [], []
        for index, (start, end) in enumerate(target_words):
            self._add_word(
                target[start:end],
                start,
                [
                    (source[slice(*source_words[word])], by_source_word[word])
                    for word in partners[index]
                ],
            )
        # Of each piece of the source, those aligned with it.
        self._targets = [[] for _ in self._source_pieces]
        for index, origins in enumerate(self._origins):
            for origin in origins:
                self._targets[origin].append(index)
        self._is_word = [bool(_WORD.match(target[a])) for a, _ in self._pieces]
        # The innermost element of each piece.
        self._owners = [root] * len(self._pieces)
        root.right = len(self._pieces)

    def _cut(self, spans):
        """Cuts spans at the edges of elements."""
        for start, end in spans:
            low = bisect.bisect_right(self._cuts, start)
            high = bisect.bisect_left(self._cuts, end)
            edges = [start, *self._cuts[low:high], end]
            yield from zip(edges, edges[1:])

    def _add_word(self, word, start, partners):
        for text, pieces in partners:
            if text == word:
                # A name or number: its parts are those of the source.
                shift = start - self._source_pieces[pieces[0]][0]
                for piece in pieces:
                    a, b = self._source_pieces[piece]
                    self._pieces.append((a + shift, b + shift))
                    self._origins.append({piece})
                return
        spans = _pieces(word, 0, len(word))
        texts = [word[a:b] for a, b in spans]
        origins = [set() for _ in spans]
        for _, pieces in partners:
            source_texts = [
                self._source[slice(*self._source_pieces[piece])]
                for piece in pieces
            ]
            for source_index, index in _match(source_texts, texts):
                origins[index].add(pieces[source_index])
        self._pieces += [(start + a, start + b) for a, b in spans]
        self._origins += origins

    def place(self):
        """Returns edits (start, end, raw) of the translation, in order."""
        waiting = [self._root]
        while waiting:
            parent = waiting.pop()
            # Those with few pieces first: a larger element can do without.
            aligned = [(self._aligned(node), node) for node in parent.children]
            aligned.sort(key=lambda pair: (not pair[1].anchor, len(pair[0])))
            unplaced = []
            for pieces, node in aligned:
                self._place_element(node, parent, pieces)
                if node.left == node.right and not node.anchor:
                    unplaced.append(node)
            for node in unplaced:
                node.left = node.right = self._find_gap(node, parent)
            waiting += parent.children
        return self._write()

    def _aligned(self, node):
        """Returns the pieces aligned with an element, most of each if any."""
        first = bisect.bisect_left(self._source_pieces, (node.start, 0))
        last = bisect.bisect_left(self._source_pieces, (node.end, 0))
        counts = collections.Counter(
            index
            for piece in range(first, last)
            for index in self._targets[piece]
        )
        mostly = {
            index
            for index, count in counts.items()
            if 2 * count >= len(self._origins[index])
        }
        return mostly or set(counts)

    def _place_element(self, node, parent, pieces):
        """Sets left and right to the span with the most aligned pieces."""
        pieces = [
            index
            for index in pieces
            if parent.left <= index < parent.right
            and self._owners[index] is parent
        ]
        left, right = parent.left, parent.right
        node.left = node.right = right if node.anchor == "right" else left
        if not pieces:
            return
        left = left if node.anchor == "left" else min(pieces)
        right = right if node.anchor == "right" else max(pieces) + 1
        pieces = set(pieces)
        if node.anchor == "right":
            order = range(right - 1, left - 1, -1)
        else:
            order = range(left, right)
        best = total = 0
        start = order[0]
        for index in order:
            if self._owners[index] is not parent:
                if node.anchor:
                    break
                total = 0
                continue
            if total <= 0 and not node.anchor:
                total, start = 0, index
            if index in pieces:
                total += 1
            elif self._origins[index]:
                total -= 1
            if total > best:
                best = total
                node.left, node.right = sorted((start, index))
                node.right += 1
        if best:
            self._owners[node.left : node.right] = [node] * (
                node.right - node.left
            )

    def _find_gap(self, node, parent):
        """Returns the index of the piece before which an empty tag is put."""
        before = bisect.bisect_left(self._source_pieces, (node.start, 0)) - 1
        after = bisect.bisect_left(self._source_pieces, (node.end, 0))
        gaps = {}
        for name, piece in (("before", before), ("after", after)):
            if 0 <= piece < len(self._source_pieces):
                found = [
                    index
                    for index in self._targets[piece]
                    if parent.left <= index < parent.right
                ]
                if found:
                    is_before = name == "before"
                    gaps[name] = max(found) + 1 if is_before else min(found)
        order = ["after", "before"]
        if self._is_attached(node):
            order.reverse()
        gap = next((gaps[name] for name in order if name in gaps), None)
        if gap is None:
            length = max(parent.end - parent.start, 1)
            share = (node.start - parent.start) / length
            gap = parent.left + round(share * (parent.right - parent.left))
        # Not within another element.
        while (
            parent.left < gap < parent.right
            and self._owners[gap] is self._owners[gap - 1]
            and self._owners[gap] is not parent
        ):
            sibling = self._owners[gap]
            is_first = node.start <= sibling.start
            gap = sibling.left if is_first else sibling.right
        return gap

    def _is_attached(self, node):
        """Whether a tag follows a word, and no word follows it."""
        before = self._source[node.start - 1 : node.start]
        after = self._source[node.end : node.end + 1]
        return bool(before.strip()) and not _WORD.match(after)

    def _write(self):
        edits, position = [], 0

        def add(place, raw, is_word=False):
            nonlocal position
            position = max(position, place)
            if raw:
                edits.append((position, position, raw))

        def key(numbered):
            number, node = numbered
            side = {"left": 0, "": 1, "right": 2}[node.anchor]
            return side, node.left, node.right, number

        def enter(node, parent):
            add(self._start(node, parent), node.open)
            if node.is_word:
                self._add_spaces(node, edits)
            children = sorted(enumerate(node.children), key=key)
            stack.append((node, iter(children)))

        stack = []
        enter(self._root, self._root)
        while stack:
            node, children = stack[-1]
            _, child = next(children, (None, None))
            if child is not None:
                enter(child, node)
                continue
            stack.pop()
            is_empty = node.left == node.right
            add(0 if is_empty else self._pieces[node.right - 1][1], node.close)
        return edits

    def _add_spaces(self, node, edits):
        """Adds spaces between words to the last edit, unless none were."""
        position, _, raw = edits.pop()
        source, target = self._source, self._target
        if _WORD.match(target[position - 1 : position]) and not _WORD.match(
            source[node.start - 1 : node.start]
        ):
            raw = f" {raw}"
        if _WORD.match(target[position : position + 1]) and not _WORD.match(
            source[node.start : node.start + 1]
        ):
            raw = f"{raw} "
        edits.append((position, position, raw))

    def _start(self, node, parent):
        """Returns the offset in the translation of an element's beginning."""
        left = node.left
        if not self._pieces or parent.left == parent.right:
            return 0
        is_at_end = left == parent.right or self._is_attached(node)
        if left == node.right and left and is_at_end:
            return self._pieces[left - 1][1]
        return self._pieces[left][0]


def _walk(root):
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack += node.children


def _pieces(text, start, end):
    return [match.span() for match in _PIECE.finditer(text, start, end)]


def _match(source, target):
    """Yields pairs of indices of the pieces of two aligned words.

    Punctuation at the beginning is matched with such, and that at the end;
    what is between, in proportion.
    """
    first, last = 0, min(len(source), len(target))

    def is_pair(one, other):
        if one == other:
            return True
        return not (_WORD.match(one) or _WORD.match(other))

    while first < last and is_pair(source[first], target[first]):
        yield first, first
        first += 1
    ends = 0
    while ends < last - first and is_pair(
        source[len(source) - 1 - ends], target[len(target) - 1 - ends]
    ):
        yield len(source) - 1 - ends, len(target) - 1 - ends
        ends += 1
    words = [
        [i for i in range(first, len(texts) - ends) if _WORD.match(texts[i])]
        for texts in (source, target)
    ]
    sources, targets = words
    # A word whose match is punctuation is aligned with the whole.
    sources = sources or [*range(len(source))]
    for number, index in enumerate(targets):
        start = number * len(sources) // len(targets)
        end = -(-(number + 1) * len(sources) // len(targets))
        for source_index in sources[start:end]:
            yield source_index, index
