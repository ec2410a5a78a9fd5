"""Zip packages, of office files and e-books, and the XML in them."""

import copy
import functools
import io
import typing
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from lxml import etree

from export.common.errors import InputError
from export.formats.file_format import OpenFile, Segment

# A text to translate, and a function that sets its translation.
Slot: typing.TypeAlias = tuple[Segment, Callable[[str], object]]
# Function of the bytes of a member and, to write it, what its texts become. It
# returns the Segments, and the new bytes or None.
MemberReader: typing.TypeAlias = Callable[
    [bytes, Sequence[str] | None], tuple[list[Segment], bytes | None]
]

# Bytes of all members. Above the second number they may be no more than so
# many times the size of the file: text is compressed to 1/10, sheets to 1/100.
_MAX_BYTES, _MAX_UNSUSPICIOUS, _MAX_RATIO = 2**31, 2**26, 150
_MAX_MEMBERS = 50_000
_BLOCK = 2**20
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


class Package:
    """A zip whose members are read one by one, and can be replaced.

    Args:
        content: bytes of the file.
        kind: what it should be, for messages, such as "an e-book".

    Raises InputError for a file that is no zip, is encrypted, or would become
    too large.
    """

    def __init__(self, content: bytes, kind: str):
        self._content, self._kind = content, kind
        if content.startswith(_OLE):
            raise InputError(
                "The file is encrypted, or of a version of Office before 2007, "
                f"expected {kind}: save it again without a password and in a "
                "newer format."
            )
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except (zipfile.BadZipFile, ValueError, NotImplementedError):
            raise InputError(
                f"The file is damaged or is not {kind}, which is a zip "
                "archive: check that its name has the right ending."
            ) from None
        infos = self._zip.infolist()
        size = sum(info.file_size for info in infos)
        if (
            len(infos) > _MAX_MEMBERS
            or size > _MAX_BYTES
            or size > max(_MAX_UNSUSPICIOUS, _MAX_RATIO * len(content))
        ):
            raise InputError(
                f"The file has {len(infos)} parts of {size} bytes in "
                f"{len(content)}, which is more than {kind} has: it may be "
                "made to fill the memory."
            )
        names = [info.filename for info in infos]
        if len(names) > len({*names}):
            raise InputError(
                "The file has two parts of one name, expected one: save it "
                "again with the program that it is from."
            )
        if any(info.flag_bits & 1 for info in infos):
            raise InputError(
                f"The file is encrypted, expected {kind} without a password: "
                "save it again without."
            )
        self.names: list[str] = names

    def read(self, name: str) -> bytes:
        """Returns the bytes of a member; raises InputError for damage."""
        blocks = []
        try:
            with self._zip.open(name) as file:
                # By blocks: a member may be larger than its header says.
                while block := file.read(_BLOCK):
                    blocks.append(block)
        except (
            *(zipfile.BadZipFile, zlib.error, EOFError, KeyError),
            *(NotImplementedError, OSError, ValueError),
        ):
            raise InputError(
                f"The part {name} of the file is damaged or missing, expected "
                f"{self._kind}: save it again with the program that it is from."
            ) from None
        return b"".join(blocks)

    def write(self, members: Mapping[str, bytes]) -> bytes:
        """Returns the file with the bytes of some members replaced.

        All others, their order, names, dates and compression stay.
        """
        if not members:
            return self._content
        output = io.BytesIO()
        with zipfile.ZipFile(output, "w") as archive:
            archive.comment = self._zip.comment
            for info in self._zip.infolist():
                name, info = info.filename, copy.copy(info)
                # Of sizes and offsets, which change.
                info.extra = b""
                content = members.get(name)
                if content is None:
                    content = self.read(name)
                archive.writestr(info, content)
        return output.getvalue()


def open_members(
    package: Package,
    readers: Mapping[str, MemberReader],
    finish: Callable[[dict[str, bytes]], object] = lambda members: None,
) -> OpenFile:
    """Returns the texts of members; `readers` has a function for each name.

    A member is read again when it is written, so that few are in memory.
    `finish` may add to the members of a file that changes.
    """
    segments, counts = [], {}
    for name, reader in readers.items():
        found, _ = reader(package.read(name), None)
        segments += found
        counts[name] = len(found)

    def write(texts: Sequence[str]) -> bytes:
        if len(texts) != len(segments):
            raise ValueError(f"{len(texts)} texts for {len(segments)} segments")
        start, members = 0, {}
        for name, count in counts.items():
            span = slice(start, start + count)
            start += count
            if any(a.text != b for a, b in zip(segments[span], texts[span])):
                content = readers[name](package.read(name), texts[span])[1]
                members[name] = content or b""
        if members:
            finish(members)
        return package.write(members)

    return OpenFile(segments, write)


def xml_reader(
    name: str, find_slots: Callable[[typing.Any], Sequence[Slot]]
) -> MemberReader:
    """Returns the MemberReader of XML whose slots `find_slots` finds."""

    def read(content, texts):
        root = parse_xml(content, name)
        slots = find_slots(root)
        segments = [segment for segment, _ in slots]
        if texts is None:
            return segments, None
        for (segment, replace), text in zip(slots, texts):
            if text != segment.text:
                replace(text)
        tree = root.getroottree()
        # A file without an encoding has UTF-8.
        return segments, etree.tostring(
            tree,
            encoding=tree.docinfo.encoding or "UTF-8",
            xml_declaration=True,
            # Not False, which is also that of files without it.
            standalone=tree.docinfo.standalone or None,
        )

    return read


def parse_xml(content: bytes, name: str) -> typing.Any:
    """Returns the root element.

    Nothing else is read. Raises InputError for XML with errors, or with
    entities of its own.
    """
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False
    )
    try:
        root = etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        reason = " ".join(str(error).partition(" (<string>")[0].split())
        raise InputError(
            f"The part {name} of the file is damaged XML ({reason}): save it "
            "again with the program that it is from."
        ) from None
    declaration = root.getroottree().docinfo.internalDTD
    if declaration is not None and declaration.entities():
        raise InputError(
            f"The part {name} of the file declares entities, which may stand "
            "for other files, expected none: save it again with the program "
            "that it is from."
        )
    return root


def text_slots(element: typing.Any) -> Iterator[Slot]:
    """Yields the text of an element with letters and without elements."""
    text = element.text
    if has_letters(text) and not len(element):
        # Descriptions of books have escaped HTML.
        markup = "html" if "</" in text else "text"
        replace = functools.partial(setattr, element, "text")
        yield Segment(text, markup), replace


def has_letters(text: str | None) -> bool:
    """Whether there is something to translate."""
    return text is not None and any(map(str.isalpha, text))
