"""Texts of programs: gettext, Java's properties, Android, .NET, Fluent."""

import html
import json
import re
from xml.sax import saxutils

from export.common.errors import InputError
from export.formats.file_format import FileOptions, OpenFile, value_segment
from export.formats.files import Place, splice
from export.formats.xliff import markup_segment, parse_elements
from export.lines.file_formats import decode_document

_STRINGS = r'"(?:[^"\\\n]|\\.)*"(?:[ \t]*\r?\n[ \t]*"(?:[^"\\\n]|\\.)*")*'
_PO_PART = re.compile(
    rf"[ \t]*(?:(?P<comment>#[^\r\n]*)|(?P<keyword>msgctxt|msgid_plural|msgid|"
    rf"msgstr(?:\[\d+\])?)[ \t]*(?P<strings>{_STRINGS}))?[ \t\r]*"
    r"(?:\n|\Z)"
)
_PO_STARTS = ("msgctxt", "msgid")
_FUZZY = re.compile(r"\s*#,.*\bfuzzy\b")
_ESCAPE = re.compile(
    r"\\(?:u(?P<unicode>[0-9a-fA-F]{4})|x(?P<hex>[0-9a-fA-F]{2})"
    r"|(?P<octal>[0-7]{1,3})|(?P<other>.))",
    re.DOTALL,
)
_CONTROLS = dict(zip("ntrfabv", "\n\t\r\f\a\b\v"))
_PROPERTY = re.compile(
    r"[ \t\f]*+(?:[#!][^\r\n]*+|(?:[^\\\s=:]|\\\r\n|\\.)*+[ \t\f]*+[=:]?"
    r"[ \t\f]*+(?P<value>(?:[^\\\r\n]|\\\r\n|\\.)*+))(?:\r\n|\n|\r|\Z)",
    re.DOTALL,
)
_ANDROID_LISTS = ("string-array", "plurals")
_ANDROID = "<resources><string>", "</string></resources>"


def _unescape(text, controls="ntrfabv"):
    """Returns text with the escapes of C, or of Java, as characters."""

    def replace(match):
        number = match["unicode"] or match["hex"]
        if number or match["octal"]:
            return chr(int(number, 16) if number else int(match["octal"], 8))
        other = match["other"]
        return _CONTROLS[other] if other in controls else other

    text = _ESCAPE.sub(replace, text)
    # Two escapes of one character, as Java has them.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def open_po(content: bytes, options: FileOptions) -> OpenFile:
    """Opens a catalog of gettext, .po or .pot.

    Entries that are fuzzy or lack a translation are translated, all with
    `options.all_units`; they lose the mark of fuzzy ones. The first plural
    form is the translation of the singular, others of the plural. Raises
    InputError for a file that is no catalog, and for too few plural forms.
    """
    text = decode_document(content)
    places: list[Place] = []
    edits: list[tuple[int, int, str]] = []
    num_forms = None
    newline = "\r\n" if "\r\n" in text else "\n"

    def encode(translation):
        return _encode_po(translation).replace("\n", newline)

    for comments, matches in _read_entries(text):
        values = {key: _read_po(each) for key, each in matches.items()}
        targets = [key for key in matches if key.startswith("msgstr")]
        source, plural = values["msgid"], values.get("msgid_plural")
        if not source and "msgctxt" not in matches:
            found = re.search(r"nplurals\s*=\s*(\d+)", values.get("msgstr", ""))
            num_forms = int(found[1]) if found else None
        if plural is not None and num_forms not in (None, len(targets)):
            line = _line_number(text, matches["msgid"].start())
            raise InputError(
                f"The entry in line {line} has {len(targets)} plural forms, "
                f"expected {num_forms} as nplurals of the header says: add or "
                "remove msgstr lines."
            )
        is_fuzzy = any(map(_FUZZY.match, map(re.Match.group, comments)))
        is_new = is_fuzzy or options.all_units
        if not source.strip() or not (
            is_new or not all(values[key] for key in targets)
        ):
            continue
        if is_fuzzy:
            edits += map(_edit_comment, comments)
        for key in targets:
            if is_new or not values[key]:
                value = plural
                if value is None or (key == "msgstr[0]" and num_forms != 1):
                    value = source
                start, end = matches[key].span("strings")
                places.append(
                    Place(start, end, value_segment(value), encode, values[key])
                )
    return splice(text, places, edits)


def _read_entries(text):
    """Yields a list of comments and a dict of matches by keyword."""
    comments, matches, position = [], {}, int(text.startswith("\ufeff"))
    while True:
        match = _PO_PART.match(text, position)
        key = match and match["keyword"]
        is_end = position == len(text)
        is_start = match and (match["comment"] or key in _PO_STARTS)
        has_target = any(each.startswith("msgstr") for each in matches)
        if has_target and (is_end or is_start):
            if "msgid" in matches:
                yield comments, matches
            comments, matches = [], {}
        if is_end and not matches:
            return
        if is_end or match is None or key in matches:
            raise InputError(
                f"Line {_line_number(text, position)} is no line of a catalog "
                "of gettext: expected msgid, a text in quotes, and msgstr with "
                "another after it."
            )
        position = match.end()
        if key:
            matches[key] = match
        elif match["comment"]:
            comments.append(match)


def _line_number(text, position):
    return text.count("\n", 0, position) + 1


def _read_po(match):
    strings = re.findall(r'"((?:[^"\\\n]|\\.)*)"', match["strings"])
    return _unescape("".join(strings))


def _edit_comment(match):
    """Returns the edit of a comment of an entry that is no longer fuzzy."""
    comment = match["comment"]
    if comment.startswith("#,"):
        flags = [each.strip() for each in comment[2:].split(",")]
        rest = [each for each in flags if each != "fuzzy"]
        if rest:
            return (*match.span("comment"), f"#, {', '.join(rest)}")
    elif not comment.startswith("#|"):
        return (match.start(), match.start(), "")
    return (*match.span(), "")


def _encode_po(text):
    # JSON has the escapes of C.
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    strings = [json.dumps(line, ensure_ascii=False) for line in lines]
    if len(strings) != 1:
        strings.insert(0, '""')
    return "\n".join(strings)


def open_properties(content: bytes, options: FileOptions) -> OpenFile:
    r"""Opens Java's properties, in UTF-8.

    In a file of ASCII alone other characters become `\u00e9`, since Java before
    version 9 reads ISO-8859-1.
    """
    del options
    text = decode_document(content)
    places = []
    position = int(text.startswith("\ufeff"))
    while position < len(text):
        # It matches any text, at least a line end or a character.
        match = _PROPERTY.match(text, position)
        if match is None or match.end() == position:
            raise InputError(
                "The last line ends with a backslash: a line must follow it."
            )
        position = match.end()
        if not (match["value"] or "").strip():
            continue
        joined = re.sub(r"\\(?:\r\n|\n|\r)[ \t\f]*", "", match["value"])
        value = _unescape(joined, "ntrf")

        def encode(translation):
            return _encode_property(translation, text.isascii())

        places.append(Place(*match.span("value"), value_segment(value), encode))
    return splice(text, places)


def _encode_property(text, is_ascii):
    # JSON has the escapes of Java.
    new = json.dumps(text, ensure_ascii=is_ascii)[1:-1].replace('\\"', '"')
    return f"\\{new}" if new.startswith(" ") else new


def open_android(content: bytes, options: FileOptions) -> OpenFile:
    """Opens Android's resources: strings, arrays and plurals.

    Elements with translatable="false" and references such as `@string/name`
    stay. Raises InputError for other XML.
    """
    del options
    text, elements = parse_elements(content, "resources")
    places = []
    for element in elements:
        parent = element.parent.name if element.parent else ""
        is_item = element.name == "item" and parent in _ANDROID_LISTS
        raw = text[element.content : element.content_end]
        if (
            not (element.name == "string" or is_item)
            or element.find_attribute("translatable") == "false"
            or not raw.strip()
            or re.fullmatch(r"\s*[@?][\w:.]+/[\w.]+\s*", raw)
        ):
            continue
        span = element.content, element.content_end
        places.append(Place(*span, *_android_segment(raw)))
    return splice(text, places)


def _android_segment(raw):
    """Returns the Segment of a string, and a function of its translation."""
    if "<" in raw or "\n" in raw:
        # "\'" is the apostrophe of text, but not of tags.
        segment, decode = markup_segment(raw.replace("\\'", "'"), _ANDROID)
        return segment, lambda text: re.sub(
            r"<[^>]*>|(')", lambda m: "\\'" if m[1] else m[0], decode(text)
        )
    value = html.unescape(raw)
    is_quoted = len(value) > 1 and value[0] == value[-1] == '"'
    if is_quoted:
        value = value[1:-1]

    def encode(text):
        text = text.replace("\\", "\\\\").replace('"', '\\"')
        text = text.replace("\n", "\\n").replace("\t", "\\t")
        text = f'"{text}"' if is_quoted else text.replace("'", "\\'")
        if text.startswith(("@", "?")):
            text = f"\\{text}"
        return saxutils.escape(text)

    return value_segment(_unescape(value, "nt")), encode


def open_resx(content: bytes, options: FileOptions) -> OpenFile:
    """Opens .NET's resources: values that are text, without types."""
    del options
    text, elements = parse_elements(content, "root")
    places = []
    for element in elements:
        value = element.child("value")
        if element.name != "data" or value is None:
            continue
        raw = text[value.content : value.content_end]
        has_type = not {"type", "mimetype"}.isdisjoint(element.attributes)
        # Names of the form's designer begin with ">>".
        is_setting = element.attributes.get("name", "").startswith(">>")
        if has_type or is_setting or "<" in raw or not raw.strip():
            continue
        segment = value_segment(html.unescape(raw))
        span = value.content, value.content_end
        places.append(Place(*span, segment, saxutils.escape))
    return splice(text, places)


def open_ftl(content: bytes, options: FileOptions) -> OpenFile:
    """Opens messages of Fluent: values, attributes and variants.

    Terms stay, since messages refer to them, and so do patterns with a choice
    within a sentence. Raises InputError for entries that are not Fluent.
    """
    from fluent.syntax import FluentParser, ast

    del options
    given = decode_document(content)
    newline = "\r\n" if "\r\n" in given else "\n"
    text = given.replace(newline, "\n")
    if text.replace("\n", newline) != given or "\r" in text:
        raise InputError("Lines of Fluent end differently: use LF for all.")
    patterns = []
    try:
        entries = FluentParser().parse(text).body
    except RecursionError:
        raise InputError("Placeables of Fluent are nested too deep.") from None
    for entry in entries:
        if isinstance(entry, ast.Junk):
            line = _line_number(text, text.find(entry.content or ""))
            raise InputError(
                f"Line {line} is not Fluent: {entry.annotations[0].message}."
            )
        if isinstance(entry, ast.Message):
            patterns += [entry.value, *(a.value for a in entry.attributes)]
    places = []
    # The loop also visits the patterns that it adds.
    for pattern in filter(None, patterns):
        expressions = [
            getattr(each, "expression", None) for each in pattern.elements
        ]
        choices = [
            each
            for each in expressions
            if isinstance(each, ast.SelectExpression)
        ]
        if choices and len(expressions) == 1:
            patterns += [each.value for each in choices[0].variants]
        elif not choices:
            places.append(_ftl_place(text, pattern, ast))
    file = splice(text, sorted(places, key=lambda place: place.start))
    return file._replace(
        write=lambda texts: file.write(texts).replace(
            b"\n", newline.encode("ascii")
        )
    )


def _ftl_place(text, pattern, ast):
    """Returns the Place of a pattern, whose placeables become {0}, {1}."""
    raws, parts = {}, []
    for element in pattern.elements:
        if isinstance(element, ast.TextElement):
            parts.append(element.value)
        else:
            name = f"{{{len(raws)}}}"
            raws[name] = text[element.span.start : element.span.end]
            parts.append(name)
    value = "".join(parts)
    start, end = pattern.span.start, pattern.span.end
    raw = text[start:end]
    first, indent = re.match(r"\s*", raw)[0], re.search(r"\n( +)\S", raw)

    def encode(translation):
        # Characters that begin syntax become placeables.
        new = "".join(
            raws.get(each) or (f'{{"{each}"}}' if each in "{}" else each)
            for each in re.split(r"(\{\d+\}|[{}])", translation)
            if each
        )
        new = re.sub(
            r"\n(?=[^\n])", "\n" + (indent[1] if indent else "    "), new
        )
        return first + re.sub(r"(?m)^( *)([.*\[])", r'\1{"\2"}', new)

    return Place(start, end, value_segment(value), encode)
