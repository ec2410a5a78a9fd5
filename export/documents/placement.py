"""Puts tags and white space of a sentence into its translation."""

import bisect
import collections
import re
from collections.abc import Sequence

from export.documents.chunks import WORD, AlignedChunks, is_short
from export.documents.items import ATOM, Item, Kind, join_texts
from export.documents.mark_tree import build_tree, split_layers, walk
from export.documents.patterns import NO_SPACES

# White space, or what is between a character and one that needs no space.
_GAP = re.compile(rf"\s+|(?<=\S)(?=[{NO_SPACES}])")
# Chunks on each side among which one is chosen for an element without a chunk.
_MAX_CLAIM_DISTANCE = 4
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def place_items(
    items: list[Item],
    target: str,
    links: Sequence[tuple[int, int]],
    document_format: str,
) -> str:
    """Returns a translation with the marks, spaces and atoms of its source.

    `items` are those of the sentence, `target` is its translation, with U+FFFC
    for each atom, and `links` are pairs (source word, target word) of white
    space separated words, () if there are no marks. Every item occurs once,
    and elements cross only if they do in the source. An element is put around
    the chunks of the translation most of which are aligned with its content, an
    element without such chunks around the nearest free word. Empty tags are put
    between the chunks that are aligned with their neighbours.
    """
    source = join_texts(items)
    edits = _place_spaces(items, source, target)
    layers, rest = split_layers(items)
    for marks in layers:
        root = build_tree(items, marks, len(source))
        edits += _Placer(root, source, target, links).place()
    edits += _order_atoms(items, source, target, links)
    edits += [(len(target), len(target), item.raw) for item in rest]
    # Tags at the beginning of a space come before it.
    edits.sort(key=lambda edit: edit[:2])
    encode = _encoder(items, target, document_format)
    output, position = [], 0
    for start, end, raw in edits:
        output += [encode(target[position:start]), raw]
        position = max(position, end)
    return "".join([*output, encode(target[position:])])


def _encoder(items, target, document_format):
    """Returns a function that writes text as the document does.

    The first occurrence of a character is written as its first one in the
    source, for example as an entity, the second as its second, and so on.
    """
    if document_format == "text":
        return str
    texts = [item for item in items if item.kind is Kind.TEXT]
    special = {item.text for item in texts if item.raw != item.text}
    special = {text for text in special if len(text) == 1}
    if not (special or set(_ESCAPES).intersection(target)):
        # Sooner, for most sentences.
        return str
    spellings = {char: [escape] for char, escape in _ESCAPES.items()}
    pattern = re.compile(f"[{re.escape(''.join({*special, *_ESCAPES}))}]")
    found = collections.defaultdict(list)
    for item in texts:
        if item.raw != item.text:
            # Without ";" the next character might become a part of it.
            found[item.text].append(f"{item.raw.removesuffix(';')};")
        else:
            for char in pattern.findall(item.text):
                found[char].append(
                    char if char == ">" else _ESCAPES.get(char, char)
                )
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
    gaps = [match.span() for match in _GAP.finditer(target)]
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
    if links and len(atoms) > 1:
        numbers = collections.defaultdict(list)
        for number, word in enumerate(_atom_words(source)):
            numbers[word].append(number)
        order = [
            number
            for word in _atom_words(target)
            for source_word, target_word in links
            if target_word == word
            for number in numbers[source_word]
        ]
        if sorted(order) == [*range(len(atoms))]:
            atoms = [atoms[number] for number in order]
    return [(place, place + 1, raw) for place, raw in zip(places, atoms)]


def _atom_words(text):
    """Returns the index of the word that each atom of a text is in."""
    starts = [match.start() for match in re.finditer(r"\S+", text)]
    atoms = re.finditer(ATOM, text)
    return [bisect.bisect(starts, match.start()) - 1 for match in atoms]


class _Placer:
    """Finds the chunks of a translation that each element is put around."""

    def __init__(self, root, source, target, links):
        self._root, self._source, self._target = root, source, target
        cuts = [edge for node in walk(root) for edge in (node.start, node.end)]
        self._aligned = AlignedChunks(source, target, links, cuts)
        self._spans = self._aligned.spans
        # The innermost element of each chunk.
        self._owners = [root] * len(self._spans)
        root.right = len(self._spans)

    def place(self):
        """Returns edits (start, end, raw) of the translation, in order."""
        waiting = [self._root]
        while waiting:
            parent = waiting.pop()
            # Elements with few chunks first: others rather lose one.
            aligned = [
                (self._aligned.find_aligned(node.start, node.end), node)
                for node in parent.children
            ]
            aligned.sort(key=lambda pair: (not pair[1].anchor, len(pair[0])))
            unplaced = []
            for chunks, node in aligned:
                self._place_element(node, parent, chunks)
                if node.left == node.right and not node.anchor:
                    unplaced.append(node)
            for node in unplaced:
                node.left = node.right = self._find_gap(node, parent)
                if WORD.search(self._source, node.start, node.end):
                    self._claim_chunk(node, parent)
            waiting += parent.children
        return self._write()

    def _place_element(self, node, parent, chunks):
        """Sets left and right to the span with the most aligned chunks."""
        chunks = [
            index
            for index in chunks
            if parent.left <= index < parent.right
            and self._owners[index] is parent
        ]
        left, right = parent.left, parent.right
        node.left = node.right = right if node.anchor == "right" else left
        if not chunks:
            return
        left = left if node.anchor == "left" else min(chunks)
        right = right if node.anchor == "right" else max(chunks) + 1
        chunks = set(chunks)
        if node.anchor == "right":
            order = range(right - 1, left - 1, -1)
        else:
            order = range(left, right)
        best, total, start = (0, 0), 0, order[0]
        middle = self._share(node, parent) * (parent.right - parent.left)
        for index in order:
            if self._owners[index] is not parent:
                if node.anchor:
                    break
                total = 0
                continue
            if total <= 0 and not node.anchor:
                total, start = 0, index
            if index in chunks:
                total += 1
            elif self._aligned.sources[index]:
                total -= 1
            # Of several the nearest to the place of the source.
            distance = abs((start + index) / 2 - parent.left - middle)
            if total > 0 and (total, -distance) > best:
                best = (total, -distance)
                node.left, node.right = sorted((start, index))
                node.right += 1
        size = node.right - node.left
        self._owners[node.left : node.right] = [node] * size

    def _claim_chunk(self, node, parent):
        """Puts an element around the best word beside its gap, if it is free.

        The nearest one; articles, and what is aligned with other words, last.
        """
        gap = node.left

        def cost(index):
            is_article = is_short(self._target, *self._spans[index])
            is_aligned = bool(self._aligned.sources[index])
            return abs(index + 0.5 - gap) + is_article + is_aligned

        start = max(gap - _MAX_CLAIM_DISTANCE, parent.left)
        end = min(gap + _MAX_CLAIM_DISTANCE, parent.right)
        free = [
            index
            for index in range(start, end)
            if self._owners[index] is parent
            and WORD.match(self._target, self._spans[index][0])
        ]
        if free:
            node.left = min(free, key=cost)
            node.right = node.left + 1
            self._owners[node.left] = node

    def _share(self, node, parent):
        """Returns the part of an element's parent that is before its middle."""
        length = max(parent.end - parent.start, 1)
        return ((node.start + node.end) / 2 - parent.start) / length

    def _find_gap(self, node, parent):
        """Returns the index of the chunk before which an empty tag is put."""
        before, after = (
            [each for each in chunks if parent.left <= each < parent.right]
            for chunks in self._aligned.find_neighbors(node.start, node.end)
        )
        length = parent.right - parent.left
        gap = parent.left + round(self._share(node, parent) * length)
        if before and (self._is_attached(node) or not after):
            gap = max(before) + 1
        elif after:
            gap = min(after)
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
        return bool(before.strip()) and not WORD.match(after)

    def _write(self):
        edits, position = [], 0

        def add(place, raw):
            nonlocal position
            position = max(position, place)
            if raw:
                edits.append((position, position, raw))

        def key(node):
            side = ("left", "", "right").index(node.anchor)
            return side, node.left, node.right

        def enter(node, parent):
            add(self._start(node, parent), node.open)
            if node.is_void and node.open:
                self._set_spaces(node, edits)
            stack.append((node, iter(sorted(node.children, key=key))))

        stack = []
        enter(self._root, self._root)
        while stack:
            node, children = stack[-1]
            child = next(children, None)
            if child is not None:
                enter(child, node)
                continue
            stack.pop()
            is_empty = node.left == node.right
            add(0 if is_empty else self._spans[node.right - 1][1], node.close)
        return edits

    def _set_spaces(self, node, edits):
        """Makes the spaces beside the last edit those of the source."""
        position, _, raw = edits.pop()
        source, target = self._source, self._target
        if node.start < node.end:
            # The mark itself separates the words: it has no space beside it.
            start = len(target[:position].rstrip())
            end = len(target) - len(target[position:].lstrip())
            edits.append((start, end, ""))
        else:
            # Offsets before and after the mark.
            before, after = (
                " "
                if WORD.match(target[place : place + 1])
                and not WORD.match(source[offset : offset + 1])
                else ""
                for place, offset in (
                    (position - 1, node.start - 1),
                    (position, node.start),
                )
            )
            raw = f"{before}{raw}{after}"
        edits.append((position, position, raw))

    def _start(self, node, parent):
        """Returns the offset in the translation of an element's beginning."""
        left = node.left
        if not self._spans or parent.left == parent.right:
            return 0
        is_at_end = left == parent.right or self._is_attached(node)
        if left == node.right and left and is_at_end:
            return self._spans[left - 1][1]
        return self._spans[left][0]
