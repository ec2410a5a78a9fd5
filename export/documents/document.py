"""Translates documents sentence by sentence; everything else stays."""

import collections
import re

from export.common.errors import InputError
from export.documents.flow import Segment, split_flow
from export.documents.items import ATOM, Kind
from export.documents.joints import write_gap
from export.documents.markup import read_markup
from export.documents.patterns import LETTER
from export.documents.placeholder_finder import (
    PlaceholderFinder,
    join_placeholders,
)
from export.documents.placement import place_items
from export.documents.plain_text import read_text

FORMATS = ("text", "html", "xml")
# Words that models copy, for placeholders; the next if one is not copied.
_SURROGATES = ("Tom", "Boston")
# Of placeholders, also those that the model did not copy, and emoji.
_ITEM_KINDS = (Kind.ATOM, Kind.VOID, Kind.OBJECT)
# Different sentences of which repetitions are placed at once.
_MAX_PLACED = 10_000
_FINDER = PlaceholderFinder()


def translate_documents(
    translator,
    texts,
    document_format,
    on_progress=None,
    terms=None,
    keep_elements=(),
    on_change=None,
):
    """Translates a list of documents; see `Translator`.

    `translator` is a Translator, whose source language is that of the
    rules for sentences; each of the sentences is translated once. A document
    that begins with tags of languages has these, and its translation no tags.
    Elements of markup named in `keep_elements` are not translated.
    """
    if document_format not in FORMATS:
        raise InputError(
            f"Expected {', '.join(FORMATS)} as the format of documents, got "
            f"{document_format}."
        )
    groups = collections.defaultdict(dict)
    for index, text in enumerate(texts):
        languages, rest = translator.languages.for_text(text)
        has_tags = len(rest) < len(text)
        key = (languages.source, languages.target) if has_tags else ()
        groups[key][index] = rest.lstrip(" ") if has_tags else text
    translations = {}
    for codes, group in groups.items():
        bound = translator.for_languages(*codes) if codes else translator
        outputs = _translate_group(
            bound,
            [
                read_text(text)
                if document_format == "text"
                else read_markup(text, document_format, keep_elements)
                for text in group.values()
            ],
            document_format,
            on_progress,
            terms,
            on_change,
        )
        translations |= zip(group, outputs)
    return [translations[index] for index in range(len(texts))]


def _translate_group(
    translator, texts, document_format, on_progress, terms, on_change
):
    """Translates documents, lists of parts, of the same languages."""
    language = translator.languages.source or "en"
    finder = terms.placeholders if terms is not None else _FINDER
    documents = []
    for parts in texts:
        # Each flow is split at once: unsplit ones take much memory.
        documents.append(
            [
                part
                if isinstance(part, str)
                else split_flow(join_placeholders(part, finder), language)
                for part in parts
            ]
        )
    segments = [
        segment
        for parts in documents
        for flow in parts
        if not isinstance(flow, str)
        for segment in flow
        if isinstance(segment, Segment)
    ]
    # Without pairs and kinds to keep, terms have placeholders alone.
    _translate_segments(translator, segments, on_progress, terms or None)
    if on_change is not None:
        for parts in documents:
            for line, item in _find_changes(parts, terms):
                on_change(line, item)
    placed = {}
    return [
        "".join(
            part
            if isinstance(part, str)
            else join_flow(part, document_format, placed)
            for part in parts
        )
        for parts in documents
    ]


def _translate_segments(translator, segments, on_progress, terms):
    """Sets the translations of Segments; splits too long ones."""
    for surrogate in (*_SURROGATES, None):
        not_copied = []
        for segment in segments:
            if surrogate is None:
                segment.remove_atoms()
            else:
                segment.surrogate = surrogate
        while segments:
            segments, sentences = _split_long(translator, segments)
            translations = _translate(
                translator, segments, sentences, on_progress, terms
            )
            # Only then does a server tell that it truncated a sentence.
            halves = []
            for segment, translation in zip(segments, translations):
                found = ()
                if translation.source_truncated:
                    found = segment.split()
                    halves += found
                if not (found or _accept(segment, translation)):
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
    aligned = {
        segment.source for segment in segments if segment.needs_alignment
    }
    if not translator.backend.has_alignments:
        aligned = ()
    elif terms is not None and not translator.backend.aligns_terms:
        aligned = {source for source in aligned if not terms.find(source)}
    # Each sentence once.
    translations = dict.fromkeys([segment.source for segment in segments])
    for is_aligned in False, True:
        sources = [
            source
            for source in translations
            if (source in aligned) == is_aligned
        ]
        if sources:
            found = translator.search(
                [sentences[source] for source in sources],
                *(1, on_progress, terms, is_aligned),
            )
            translations |= zip(sources, [row[0] for row in found])
    return [translations[segment.source] for segment in segments]


def _accept(segment, translation):
    """Sets a Segment's translation; returns whether it has all atoms."""
    # The model may know the character.
    text, num_atoms = translation.text.replace(ATOM, ""), segment.num_atoms
    if num_atoms:
        surrogate = rf"(?<!{LETTER}){segment.surrogate}(?!{LETTER})"
        # Another one of the source may be the one that was copied.
        is_clear = not re.search(surrogate, segment.text)
        text, count = re.subn(surrogate, ATOM, text)
        if not is_clear or count != num_atoms:
            return False
    segment.links = translation.alignment
    if text != segment.text:
        segment.translation = text
    return True


def join_flow(flow, document_format, placed):
    """Returns the text of a flow whose Segments are translated.

    `placed` is a dict for the results of repeated sentences, {} at first.
    """
    parts = [*_flatten(flow)]
    for index, segment in enumerate(parts):
        is_segment = isinstance(segment, Segment)
        if is_segment and segment.translation is not None:
            _move_tags(parts[index - 1], segment, parts[index + 1])
    output = []
    for index, part in enumerate(parts):
        if isinstance(part, list):
            neighbors = parts[index - 1 : index + 2 : 2] if index else ()
            if len(neighbors) == 2 and any(
                [each.translation is not None for each in neighbors]
            ):
                pairs = [each.texts for each in neighbors]
                output.append(write_gap(part, *pairs))
            else:
                output += [item.origin for item in part]
        elif part.translation is None:
            output += [item.origin for item in part.items]
        else:
            key = _placement_key(part)
            text = placed.get(key)
            if text is None:
                text = place_items(
                    part.items, part.translation, part.links, document_format
                )
                if len(placed) < _MAX_PLACED:
                    placed[key] = text
            output.append(text)
    return "".join(output)


def _find_changes(parts, terms):
    """Yields (line, item) of items that a translation lacks or has twice.

    Those in place of which a name is translated cannot be lost.
    """
    line = 1
    for part in parts:
        for each in [part] if isinstance(part, str) else _flatten(part):
            if isinstance(each, str):
                line += each.count("\n")
                continue
            items = each
            if isinstance(each, Segment):
                items, (source, target) = each.items, each.texts
                marks = {
                    item.raw
                    for item in items
                    if item.raw and item.kind in _ITEM_KINDS
                }
                found = [
                    raw
                    for raw in marks
                    if target.count(raw) > source.count(raw)
                ]
                if terms:
                    found += terms.find_changes(source, target)
                yield from ((line, item) for item in found)
            line += sum([item.raw.count("\n") for item in items])


def _placement_key(segment):
    """Returns all that the result of `place_items` depends on."""
    numbers = {}
    items = [
        (
            item.kind,
            item.raw,
            numbers.setdefault(item.element, len(numbers)),
        )
        for item in segment.items
    ]
    return segment.translation, segment.links, tuple(items)


def _flatten(parts):
    """Yields lists of Item and, between two of them, a Segment."""
    stack = [iter(parts)]
    between = []
    while stack:
        part = next(stack[-1], None)
        if part is None:
            stack.pop()
        elif isinstance(part, list):
            between += part
        elif part.parts is not None:
            stack.append(iter(part.parts))
        else:
            yield between
            yield part
            between = []
    yield between


def _move_tags(before, segment, after):
    """Moves tags beside a Segment whose partner it has into the Segment.

    Others enclose all of it, or nothing.
    """
    elements = [{}, {}]
    for item in segment.items:
        if item.kind in (Kind.OPEN, Kind.CLOSE):
            elements[item.kind is Kind.CLOSE][item.element] = True
    opened, closed = elements
    starts = [i for i, item in enumerate(before) if item.element in closed]
    ends = [i for i, item in enumerate(after) if item.element in opened]
    if starts:
        moved = [item for item in before[starts[0] :] if item.is_mark]
        before[starts[0] :] = [
            item for item in before[starts[0] :] if not item.is_mark
        ]
        segment.items = moved + segment.items
    if ends:
        end = ends[-1] + 1
        segment.items += [item for item in after[:end] if item.is_mark]
        after[:end] = [item for item in after[:end] if not item.is_mark]
