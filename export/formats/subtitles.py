"""Subtitles: SubRip (.srt) and WebVTT (.vtt).

Cues that share a sentence are joined; its translation is cut again into as many
cues, by the time of each. A cue without a changed sentence keeps its bytes.
"""

import bisect
import collections
import dataclasses
import html
import itertools
import re
import typing
import unicodedata
from collections.abc import Sequence

from export.common.errors import InputError
from export.documents.patterns import CHINESE, WIDE_MARKS
from export.formats.file_format import FileOptions, OpenFile, Segment
from export.lines.file_formats import decode_document

# What readers expect of a cue: two lines of 42 columns.
_MAX_COLUMNS = 42
# Cues farther apart, in seconds, or more of them are no sentence: there are
# files without punctuation.
_MAX_PAUSE, _MAX_CUES = 3.0, 6
# Tags around all of a cue.
_MAX_TAGS = 20
# Columns around the place by time, within which a sentence is cut.
_MAX_SHIFT = 160
# The cost of a cut within a clause; 1 is that of twice the length by time.
_CLAUSE_COST = 0.3
_TIME = r"(?:(\d{1,4}):)?(\d\d?):(\d\d?)[,.](\d{1,3})"
_TIMING = re.compile(rf"\ufeff?\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?", re.DOTALL)
_VTT_BLOCK = re.compile(r"\ufeff?(?:WEBVTT|NOTE|STYLE|REGION)(?:\s|$)")
# Positions and styles, as {\an8}, and times within a cue have no partner.
_MARK = re.compile(r"\{\\[^{}]*\}|<\d[\d:.,]*>")
_TAG = re.compile(rf"{_MARK.pattern}|</?([a-zA-Z]+)[^<>]*>")
# With a dash before it, and the marks that French has after a space.
_WORD = re.compile(
    rf"(?:[-–—‐♪#«]\s+)?(?:{_TAG.pattern}|\S)+(?:\s+[^\w\s<{{«]+(?!\S))*"
)
_CHINESE_BREAK = re.compile(rf"(?<=[{CHINESE}{WIDE_MARKS}])(?=[{CHINESE}])")
_CHINESE_LINE_END = re.compile(
    rf"(?<=[{CHINESE}{WIDE_MARKS}])\n(?=[{CHINESE}{WIDE_MARKS}])"
)
_SENTENCE_END = re.compile(r"[.!?…。！？♪][\"'”’»)\]」』]*$")
_CLAUSE_END = re.compile(r"[.,;:!?…、，；：。！？][\"'”’»)\]」』]*$")
# The beginning of a line that another person says, or of a sound.
_SPEAKER = re.compile(r"[-–—‐♪#(\[]|>>")


class _Cue(typing.NamedTuple):
    """A cue; the lines of its text are those from `first` to `end`."""

    first: int
    end: int
    start_time: float
    end_time: float


@dataclasses.dataclass
class _Piece:
    """Lines of a cue that one person says; `prefix` and so on are tags."""

    cue: int
    lines: list[str]
    seconds: float
    prefix: str
    text: str
    suffix: str
    # The lines of the translation.
    output: list[str] | None = None


def open_subtitles(content: bytes, options: FileOptions) -> OpenFile:
    """Opens SubRip or WebVTT subtitles.

    Times, numbers, settings, notes and styles stay. Raises InputError for text
    that is not UTF-8, lines that are no cue, and cues out of order.
    """
    del options
    text = decode_document(content)
    # Not splitlines, which splits at characters within lines, too.
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)
    is_vtt = text.removeprefix("\ufeff").startswith("WEBVTT")
    cues = [*_read_cues(lines, is_vtt)]
    if not (cues or is_vtt):
        raise InputError(
            "The file has no cue, expected SubRip or WebVTT subtitles: check "
            "whether its name has the right ending."
        )
    pieces = [_read_pieces(index, cue, lines) for index, cue in enumerate(cues)]
    groups = [*_join_pieces(cues, pieces)]
    sentences = [_Sentence(group, is_vtt) for group in groups]

    def write(texts: Sequence[str]) -> bytes:
        for sentence, translation in zip(sentences, texts, strict=True):
            sentence.set_translation(translation)
        output = lines.copy()
        # From the end: the number of lines changes.
        for cue, of_cue in reversed([*zip(cues, pieces)]):
            if all(piece.output is None for piece in of_cue):
                continue
            new = itertools.chain.from_iterable(
                piece.lines if piece.output is None else piece.output
                for piece in of_cue
            )
            line_end, last_end = (
                line[len(line.rstrip("\r\n")) :]
                for line in (lines[cue.first - 1], lines[cue.end - 1])
            )
            text = line_end.join(new)
            output[cue.first : cue.end] = [text + last_end] if text else []
        return "".join(output).encode()

    return OpenFile([each.segment for each in sentences], write)


def _read_cues(lines, is_vtt):
    """Yields the cues; raises InputError for lines that are none."""
    number, time_before = 0, 0.0
    for is_blank, group in itertools.groupby(lines, str.isspace):
        first, number = number, number + len([*group])
        if is_blank or (is_vtt and _VTT_BLOCK.match(lines[first])):
            continue
        if "-->" not in lines[first] and first + 1 < number:
            # The number or the name of the cue.
            first += 1
        times = _TIMING.fullmatch(lines[first])
        if times is None:
            raise InputError(
                f"Line {first + 1} of the subtitles is "
                f"{lines[first].strip()[:40]!r}, expected the times of a cue, "
                "such as 00:00:01,000 --> 00:00:02,500: correct it."
            )
        start, end = (
            _seconds(*times.groups()[:4]),
            _seconds(*times.groups()[4:]),
        )
        if not time_before <= start <= end:
            raise InputError(
                f"The cue in line {first + 1} of the subtitles begins before "
                "the one above it or ends before it begins, expected cues in "
                "the order of time: sort them, or correct the times."
            )
        time_before = start
        yield _Cue(first + 1, number, start, end)


def _seconds(hours, minutes, seconds, fraction):
    whole = (int(hours or 0) * 60 + int(minutes)) * 60 + int(seconds)
    return whole + float(f"0.{fraction}")


def _read_pieces(index, cue, lines):
    """Returns the Pieces of a cue, each with its part of the time."""
    groups: list[list[str]] = []
    for line in lines[cue.first : cue.end]:
        line = line.rstrip("\r\n")
        if not groups or _SPEAKER.match(_TAG.sub("", line).strip()):
            groups.append([])
        groups[-1].append(line)
    total = sum(len(line) for group in groups for line in group) or 1
    pieces = []
    for group in groups:
        part = sum(map(len, group)) / total
        text = _join_words(group)
        seconds = part * (cue.end_time - cue.start_time)
        pieces.append(_Piece(index, group, seconds, *_strip_tags(text)))
    return pieces


def _join_words(texts):
    lines = "\n".join(" ".join(text.split()) for text in texts)
    return _CHINESE_LINE_END.sub("", lines).replace("\n", " ")


def _strip_tags(text):
    """Returns the tags before all of a text, the rest, and those after it."""
    start, end = 0, len(text)
    for _ in range(_MAX_TAGS):
        match = _TAG.match(text, start, end)
        if match is None:
            break
        if match[1] and not match[0].startswith("</"):
            name = f"</{match[1]}>"
            closing = text.find(name, match.end(), end)
            if 0 <= closing < end - len(name):
                # Around the first words only.
                break
            end = closing if closing >= 0 else end
        start = match.end()
        start += text[start:end][:1].isspace()
    for _ in range(_MAX_TAGS):
        closing = re.search(r"\s?</([a-zA-Z]+)>\Z", text[start:end])
        if closing is None or f"<{closing[1]}" in text[start:end]:
            break
        end -= len(closing[0])
    return text[:start], text[start:end], text[end:]


def _join_pieces(cues, pieces):
    """Yields lists of Pieces that share sentences, in order."""
    group: list[_Piece] = []
    for piece in itertools.chain.from_iterable(pieces):
        if not any(map(str.isalpha, piece.text)):
            continue
        if group:
            before = group[-1]
            pause = cues[piece.cue].start_time - cues[before.cue].end_time
            if (
                piece.cue != before.cue + 1
                or len(group) == _MAX_CUES
                or pause > _MAX_PAUSE
                or _SENTENCE_END.search(_TAG.sub("", before.text))
                or _SPEAKER.match(_TAG.sub("", piece.text))
            ):
                yield group
                group = []
        group.append(piece)
    if group:
        yield group


class _Sentence:
    """One or more sentences of Pieces, and their Segment."""

    def __init__(self, pieces: list[_Piece], is_vtt: bool):
        self._pieces, self._is_vtt = pieces, is_vtt
        text = _join_words([piece.text for piece in pieces])
        # Tags of HTML in place of marks, which it has not.
        marks = dict.fromkeys(_MARK.findall(text))
        stand_ins = {mark: f'<wbr id="{i}">' for i, mark in enumerate(marks)}
        self._marks = {tag: mark for mark, tag in stand_ins.items()}
        marked = _MARK.sub(lambda mark: stand_ins[mark[0]], text)
        if _TAG.search(text) or (is_vtt and re.search("[<&]", text)):
            self.segment = Segment(f"<p>{marked}</p>", "html")
        else:
            self.segment = Segment(text)

    def set_translation(self, text):
        """Sets the output of the Pieces."""
        if text == self.segment.text:
            outputs = [None] * len(self._pieces)
        else:
            if self.segment.markup == "html":
                text = text.removeprefix("<p>").removesuffix("</p>")
                text = _TAG.sub(
                    lambda tag: self._marks.get(tag[0], tag[0]), text
                )
            elif self._is_vtt:
                text = html.escape(text, quote=False)
            words = _split_words(text)
            ends = _find_cuts(words, [each.seconds for each in self._pieces])
            spans = itertools.pairwise([0, *ends])
            parts = [words[start:end] for start, end in spans]
            outputs = [_break_lines(each) for each in _close_tags(parts)]
        for piece, output in zip(self._pieces, outputs):
            piece.output = output
            if output is not None:
                output[0] = piece.prefix + output[0]
                output[-1] += piece.suffix


def _split_words(text):
    """Returns words, each with the space before it; of Chinese, characters."""
    words = []
    for match in _WORD.finditer(text):
        parts = [match[0]]
        if "<" not in match[0]:
            parts = _CHINESE_BREAK.split(match[0])
        words += [f" {parts[0]}", *parts[1:]]
    return words


def _width(words):
    text = _TAG.sub("", "".join(words))
    if text.isascii():
        return len(text)
    return sum(
        2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def _find_cuts(words, seconds):
    """Returns the ends of the parts of words, one for each duration.

    The best parts are as long as their time says, have two lines, end with a
    clause and are not empty.
    """
    places = [0, *itertools.accumulate(_width([word]) for word in words)]
    if not any(seconds):
        seconds = [1.0] * len(seconds)
    ideals = [places[-1] * each / sum(seconds) for each in seconds]
    # The least cost up to each place, and the cuts.
    best: dict[int, tuple[float, list[int]]] = {0: (0.0, [])}
    for target, ideal in zip(itertools.accumulate(ideals[:-1]), ideals):
        low = bisect.bisect_left(places, target - _MAX_SHIFT)
        high = bisect.bisect_right(places, target + _MAX_SHIFT)
        best = {
            end: _extend(best, words, places, end, ideal)
            for end in range(low, max(high, low + 1))
        }
    return _extend(best, words, places, len(words), ideals[-1])[1]


def _extend(best, words, places, end, ideal):
    """Returns the least cost and the cuts with a part that ends at `end`."""
    return min(
        (cost + _part_cost(words, places, start, end, ideal), [*cuts, end])
        for start, (cost, cuts) in best.items()
        if start <= end
    )


def _part_cost(words, places, start, end, ideal):
    """Returns the cost of words as a part."""
    width = places[end] - places[start]
    cost = ((width - ideal) / max(ideal, _MAX_COLUMNS / 4)) ** 2
    if start == end:
        return cost + 1000
    # The first line as full as possible; each line begins with a space.
    limit = places[start] + _MAX_COLUMNS + 1
    second = bisect.bisect_right(places, limit, start, end + 1) - 1
    excess = places[end] - places[max(second, start)] - _MAX_COLUMNS - 1
    if excess > 0:
        cost += 10 + excess
    if end < len(words) and not _CLAUSE_END.search(
        _TAG.sub("", words[end - 1])
    ):
        cost += _CLAUSE_COST
    return cost


def _close_tags(parts):
    """Yields lists of words in which tags that a cut divided are repeated."""
    text = "".join(itertools.chain.from_iterable(parts))
    closings = collections.Counter(re.findall(r"</([a-zA-Z]+)>", text))
    opened: list[re.Match] = []
    for words in parts:
        before = "".join(tag[0] for tag in opened)
        for tag in _TAG.finditer("".join(words)):
            if tag[0].startswith("</"):
                closings[tag[1]] -= 1
                if opened and opened[-1][1] == tag[1]:
                    opened.pop()
            elif tag[1] and closings[tag[1]] > 0:
                opened.append(tag)
        after = "".join(f"</{tag[1]}>" for tag in reversed(opened))
        if words and (before or after):
            words = [before + words[0].lstrip(), *words[1:]]
            words[-1] += after
        yield words


def _break_lines(words):
    """Returns the lines of a cue: one, two of like width, or more."""
    if _width(words) <= _MAX_COLUMNS + 1:
        return ["".join(words).strip()]
    halves = []
    if _width(words) <= 2 * (_MAX_COLUMNS + 1):
        for end in range(1, len(words)):
            widths = _width(words[:end]), _width(words[end:])
            if max(widths) <= _MAX_COLUMNS + 1:
                is_clause = _CLAUSE_END.search(_TAG.sub("", words[end - 1]))
                difference = abs(widths[0] - widths[1])
                halves.append((difference - (10 if is_clause else 0), end))
    lines: list[str] = []
    if halves:
        end = min(halves)[1]
        lines = ["".join(words[:end]), "".join(words[end:])]
    else:
        for word in words:
            if lines and _width([lines[-1], word]) <= _MAX_COLUMNS + 1:
                lines[-1] += word
            else:
                lines.append(word)
    return [line.strip() for line in lines]
