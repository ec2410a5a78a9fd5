"""Translates documents sentence by sentence; everything else stays."""

import collections
import itertools
import re
import typing
from collections.abc import Callable, Collection, Sequence

from export.common.errors import InputError
from export.documents.flow import Segment, SplitFlow, split_flow
from export.documents.items import (
    Kind,
    MovedItem,
    join_source_raws,
    join_texts,
)
from export.documents.joints import write_gap
from export.documents.markup import read_markup
from export.documents.patterns import IDENTIFIER
from export.documents.placeholder_finder import (
    PlaceholderFinder,
    join_placeholders,
)
from export.documents.placement import place_items
from export.documents.plain_text import read_text

FORMATS = ("text", "html", "xml")
# Words that models copy, in place of placeholders: the second for sentences
# in which the first was not copied.
_STAND_INS = ("Tom", "Boston")
# Kinds of placeholders, also if they became marks, and of emoji.
_ITEM_KINDS = (Kind.ATOM, Kind.VOID, Kind.OBJECT)
# Different sentences of which repetitions are placed at once.
_MAX_PLACED = 10_000
_FINDER = PlaceholderFinder()
_IDENTIFIER = re.compile(IDENTIFIER, re.ASCII)


def translate_documents(
    translator: typing.Any,
    texts: Sequence[str],
    document_format: str,
    on_progress: Callable[[int], object] | None = None,
    terms: typing.Any = None,
    keep_elements: Collection[str] = (),
    on_change: Callable[[int, str], object] | None = None,
    on_segment: Callable[[int, Segment], object] | None = None,
) -> list[str]:
    """Translates documents; see `Translator`.

    `translator` is a Translator, whose source language is that of the
    rules for sentences; each of the sentences is translated once. A document
    that begins with tags of languages has these, and its translation no tags.
    Elements of markup named in `keep_elements` are not translated. `on_segment`
    gets the index of its document and each translated Segment.
    """
    if document_format not in FORMATS:
        raise InputError(
            f"Expected {', '.join(FORMATS)} as the format of documents, got "
            f"{document_format}."
        )

    def read(text):
        if document_format == "text":
            return read_text(text)
        return read_markup(text, document_format, keep_elements)

    groups: dict[tuple, dict[int, str]] = collections.defaultdict(dict)
    for index, text in enumerate(texts):
        languages, rest = translator.languages.for_text(text)
        has_tags = len(rest) < len(text)
        key = (languages.source, languages.target) if has_tags else ()
        groups[key][index] = rest.lstrip(" ") if has_tags else text
    translations: dict[int, str] = {}
    for codes, group in groups.items():
        bound = translator.for_languages(*codes) if codes else translator
        documents = {index: read(text) for index, text in group.items()}
        options = document_format, on_progress, terms, on_change, on_segment
        translations |= _translate_group(bound, documents, *options)
    return [translations[index] for index in range(len(texts))]


def _translate_group(
    translator,
    texts,
    document_format,
    on_progress,
    terms,
    on_change,
    on_segment,
):
    """Translates documents, a dict of lists of parts, of the same languages."""
    language = translator.languages.source or "en"
    finder = terms.placeholders if terms is not None else _FINDER

    def split(part):
        if isinstance(part, str):
            return part
        items = join_placeholders(part, finder)
        text = join_texts(items).strip()
        if _IDENTIFIER.fullmatch(text) and not (terms and terms.find(text)):
            return SplitFlow([items], [])
        return split_flow(items, language)

    # Flows are split as they are read: unsplit ones take much memory.
    documents = {index: [*map(split, parts)] for index, parts in texts.items()}
    flows = {
        index: [part for part in parts if not isinstance(part, str)]
        for index, parts in documents.items()
    }
    segments = [
        segment
        for flow in itertools.chain.from_iterable(flows.values())
        for segment in flow.segments
    ]
    # Without pairs and kinds to keep, terms have placeholders alone.
    _translate_segments(translator, segments, on_progress, terms or None)
    if on_change is not None:
        for parts in documents.values():
            for line, item in _find_changes(parts, terms):
                on_change(line, item)
    if on_segment is not None:
        for index, parts in flows.items():
            for flow in parts:
                for segment in flow.flatten().segments:
                    on_segment(index, segment)
    placed = {}

    def join(part):
        if isinstance(part, str):
            return part
        return join_flow(part, document_format, placed)

    return {
        index: "".join(map(join, parts)) for index, parts in documents.items()
    }


def _translate_segments(translator, segments, on_progress, terms):
    """Sets the translations of Segments; splits too long ones."""
    for stand_in in (*_STAND_INS, None):
        not_copied = []
        for segment in segments:
            if stand_in is None:
                segment.remove_atoms()
            else:
                segment.stand_in = stand_in
        while segments:
            segments, sentences = _split_long(translator, segments)
            translations = _translate(
                translator, segments, sentences, on_progress, terms
            )
            # A server tells only with its answer that it truncated a sentence.
            halves = []
            for segment, translation in zip(segments, translations):
                is_long = translation.source_truncated
                found = segment.split() if is_long else ()
                halves += found
                if not (found or segment.accept(translation)):
                    not_copied.append(segment)
            segments = halves
        segments = not_copied


def _split_long(translator, segments):
    """Splits Segments until the model takes them.

    Returns all of them, and a dict of each of their sources to its Sentence.
    """
    fitting, sentences = [], {}
    while segments:
        sources = [*dict.fromkeys([each.source for each in segments])]
        sentences |= zip(sources, translator.sentences(sources))
        halves = []
        for segment in segments:
            is_long = sentences[segment.source].truncated
            found = segment.split() if is_long else ()
            halves += found
            if not found:
                fitting.append(segment)
        segments = halves
    return fitting, sentences


def _translate(translator, segments, sentences, on_progress, terms):
    """Returns the Translations of Segments, with alignments if needed."""
    aligned = {each.source for each in segments if each.needs_alignment}
    if not translator.backend.has_alignments:
        aligned = ()
    elif terms is not None and not translator.backend.aligns_terms:
        aligned = {source for source in aligned if not terms.find(source)}
    # Each sentence once.
    translations = dict.fromkeys([segment.source for segment in segments])
    for is_aligned in False, True:
        sources = [
            each for each in translations if (each in aligned) == is_aligned
        ]
        if sources:
            inputs = [sentences[source] for source in sources]
            rows = translator.search(inputs, 1, on_progress, terms, is_aligned)
            translations |= zip(sources, [row[0] for row in rows])
    return [translations[segment.source] for segment in segments]


def join_flow(
    flow: SplitFlow, document_format: str, placed: dict[tuple, str]
) -> str:
    """Returns the text of a SplitFlow whose Segments are translated.

    `placed` has the results of repeated sentences, {} at first.
    """
    gaps, segments = flow.flatten()
    for before, segment, after in zip(gaps, segments, gaps[1:]):
        if segment.translation is not None and (before or after):
            _move_tags(before, segment, after)
            # The sentence has their characters.
            for item in after:
                if isinstance(item, MovedItem):
                    item.source_raw = item.raw
    output = [join_source_raws(gaps[0])]
    for index, segment in enumerate(segments):
        output.append(_write_segment(segment, document_format, placed))
        gap, pair = gaps[index + 1], segments[index : index + 2]
        if len(pair) == 2 and any(
            each.translation is not None for each in pair
        ):
            output.append(write_gap(gap, *(each.texts for each in pair)))
        else:
            output.append(join_source_raws(gap))
    return "".join(output)


def _write_segment(segment, document_format, placed):
    """Returns the text of a Segment in the translated document."""
    if segment.translation is None:
        return join_source_raws(segment.items)
    key = _placement_key(segment)
    text = placed.get(key)
    if text is None:
        text = place_items(
            segment.items, segment.translation, segment.links, document_format
        )
        if len(placed) < _MAX_PLACED:
            placed[key] = text
    return text


def _find_changes(parts, terms):
    """Yields (line, item) of items that a translation lacks or has twice.

    An item in place of which a name is translated cannot be lost.
    """
    line = 1
    for part in parts:
        if isinstance(part, str):
            line += part.count("\n")
            continue
        gaps, segments = part.flatten()
        for gap, segment in zip(gaps, segments):
            line += _count_lines(gap)
            source, target = segment.texts
            raws = {i.raw for i in segment.items if i.kind in _ITEM_KINDS}
            raws.discard("")
            found = [
                raw for raw in raws if target.count(raw) > source.count(raw)
            ]
            if terms:
                found += terms.find_changes(source, target)
            yield from ((line, item) for item in found)
            line += _count_lines(segment.items)
        line += _count_lines(gaps[-1])


def _count_lines(items):
    return sum(item.raw.count("\n") for item in items)


def _placement_key(segment):
    """Returns all that the result of `place_items` depends on."""
    numbers, key = {}, [segment.translation, segment.links]
    for item in segment.items:
        number = numbers.setdefault(item.element, len(numbers))
        key.append((item.kind, item.raw, number))
    return tuple(key)


def _move_tags(before, segment, after):
    """Moves tags beside a Segment whose partner it has into the Segment.

    Other tags enclose all of it, or nothing.
    """
    opened, closed = (
        {item.element for item in segment.items if item.kind is kind}
        for kind in (Kind.OPEN, Kind.CLOSE)
    )
    starts = [i for i, item in enumerate(before) if item.element in closed]
    ends = [i + 1 for i, item in enumerate(after) if item.element in opened]
    start, end = min(starts, default=len(before)), max(ends, default=0)
    segment.items = [
        *(item for item in before[start:] if item.is_mark),
        *segment.items,
        *(item for item in after[:end] if item.is_mark),
    ]
    before[start:] = [item for item in before[start:] if not item.is_mark]
    after[:end] = [item for item in after[:end] if not item.is_mark]
