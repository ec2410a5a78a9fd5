"""Lines in, lines out: formats, chunks and writing."""

import contextlib
import io
import itertools
import os
import queue
import threading

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from export.lines import formats
from export.lines.files import DecodedLines
from export.lines.streams import (
    WholeLines,
    chunk_sizes,
    read_chunks,
    translate_lines,
)
from export.translators.text_translator import BLANK, Translation

FOUND = [
    Translation("le chat", -0.25, ((0, 0), (2, 1))),
    Translation("un chat", -1.5),
]


@pytest.mark.parametrize(
    "line_format, lines",
    [
        (formats.best_text, ["le chat"]),
        (formats.scored_text, ["-0.250000\tle chat"]),
        (formats.aligned_text, ["le chat\t0-0 2-1"]),
        (formats.scored_and_aligned_text, ["-0.250000\tle chat\t0-0 2-1"]),
        (
            formats.n_best_list,
            ["7 ||| le chat ||| -0.250000", "7 ||| un chat ||| -1.500000"],
        ),
    ],
)
def test_formats(line_format, lines):
    assert line_format(7, FOUND) == lines


@pytest.mark.parametrize(
    "line_format, line",
    [
        (formats.best_text, ""),
        (formats.scored_text, "0.000000\t"),
        (formats.aligned_text, "\t"),
        (formats.n_best_list, "0 |||  ||| 0.000000"),
    ],
)
def test_formats_of_a_blank_line(line_format, line):
    assert line_format(0, [BLANK]) == [line]


def test_a_translation_never_breaks_a_line():
    found = [Translation("a\nb\tc\rd", 0.0)]
    assert formats.aligned_text(0, found) == ["a b c d\t"]


def shouted(texts):
    return [
        [Translation(text.upper(), 0.0, source_truncated=len(text) > 3)]
        for text in texts
    ]


def run(chunks, line_format=formats.best_text):
    written = []
    cut = translate_lines(chunks, shouted, line_format, written.append)
    return written, cut


def test_lines_are_written_chunk_by_chunk_in_order():
    written, cut = run(["a", "bc", "def", "g"])
    assert written == [["A"], ["B", "C"], ["D", "E", "F"], ["G"]]
    assert cut == ([], 0)


def test_cut_lines_are_counted_and_the_first_ones_named():
    chunks = [["a", "long"], ["b", "long"], ["long", ""], ["long"]]
    assert run(chunks)[1] == ([2, 4, 5], 4)


def test_numbers_go_on_over_chunks():
    written, _ = run(["ab", "c"], formats.n_best_list)
    assert [line[0] for lines in written for line in lines] == ["0", "1", "2"]


def test_no_more_than_a_chunk_is_read_ahead():
    read = []
    lines = (read.append(number) or "x" for number in range(600))
    ahead = [(len(read), len(chunk)) for chunk in read_chunks(lines, [])]
    assert ahead == [(128, 128), (384, 256), (600, 216)]


@given(
    st.lists(st.text("ab\n", min_size=1, max_size=9), max_size=5),
    st.booleans(),
)
@example(["a\nb", "c", "\n", "d"], False)
@settings(max_examples=25)
def test_what_is_there_is_taken_when_the_input_pauses(blocks, is_paired):
    reader, writer = os.pipe()
    answers, seen, written = queue.Queue(), [], ""

    def read():
        with os.fdopen(reader, "rb") as stream:
            lines = DecodedLines(stream)
            sources = [lines, DecodedLines(io.BytesIO(b"x\n" * 99))]
            if is_paired:
                lines = (line for line, _ in zip(*sources))
            for chunk in read_chunks(lines, sources):
                answers.put(chunk)
        answers.put(None)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    for block in blocks:
        os.write(writer, block.encode())
        written += block
        while len(seen) < written.count("\n"):
            seen += answers.get(timeout=60)
        assert seen == written.split("\n")[:-1]
    os.close(writer)
    while (chunk := answers.get(timeout=60)) is not None:
        seen += chunk
    assert seen == [line.strip("\n") for line in io.StringIO(written)]
    thread.join()


def test_chunks_grow_up_to_a_limit():
    sizes = list(itertools.islice(chunk_sizes(), 9))
    assert sizes == [128, 256, 512, 1024, 2048, 4096, 4096, 4096, 4096]


def test_lines_end_with_line_feeds_alone():
    text = "a\u2028b\n\nc\r\n\x0cd\x85\ne"
    found = list(DecodedLines(io.BytesIO(text.encode())))
    assert found == ["a b", "", "c", " d ", "e"]


def test_a_bad_byte_is_named_by_its_line():
    with pytest.raises(InputError, match="Line 3 .* not UTF-8"):
        list(DecodedLines(io.BytesIO(b"a\nb\n\xff\nd\n")))


LINES = ["é" * n for n in (0, 1, 100, 3000, 0, 5000, 2, 2047, 2048)] + [
    "x"
] * 99


def test_what_is_written_is_what_was_given(tmp_path):
    path = tmp_path / "out"
    with path.open("wb") as file:
        output = WholeLines(file.fileno(), "out")
        output.write(LINES)
        output.write([])
        output.write(iter(LINES))
    expected = "".join(f"{line}\n" for line in LINES * 2)
    assert path.read_text(encoding="utf-8") == expected


def test_every_write_is_of_whole_lines(tmp_path, monkeypatch):
    blocks = []
    monkeypatch.setattr(
        os, "write", lambda to, block: blocks.append(block) or len(block)
    )
    WholeLines(1, "out").write(LINES * 3)
    blocks = [block for block in blocks if block]
    assert all(block.endswith(b"\n") for block in blocks)
    assert all(
        len(block) <= 4096 or block.count(b"\n") == 1 for block in blocks
    )
    assert len(blocks) < len(LINES)


def test_a_slow_reader_gets_all():
    reader, writer = os.pipe()
    received = []

    def read():
        while block := os.read(reader, 333):
            received.append(block)

    thread = threading.Thread(target=read)
    thread.start()
    WholeLines(writer, "pipe").write(LINES * 20)
    os.close(writer)
    thread.join()
    os.close(reader)
    expected = "".join(f"{line}\n" for line in LINES * 20)
    assert b"".join(received).decode() == expected


def test_a_full_disk_leaves_whole_lines(small_disk):
    path = small_disk / "out"
    line = "x" * 100
    with path.open("wb") as file:
        output = WholeLines(file.fileno(), str(path))
        with pytest.raises(InputError, match=f"{path}.* No space left"):
            output.write([line] * 20_000)
    content = path.read_bytes()
    assert len(content) > 900_000
    assert set(content.splitlines(keepends=True)) == {f"{line}\n".encode()}


def test_what_a_full_disk_cannot_be_added_to_stays(small_disk):
    """As after `>>`: opened to add, the file stands at its start."""
    path = small_disk / "out"
    with path.open("wb") as file, contextlib.suppress(OSError):
        while True:
            os.write(file.fileno(), b"kept.\n" * 100)
    before = path.read_bytes()
    with path.open("ab") as file:
        output = WholeLines(file.fileno(), str(path))
        with pytest.raises(InputError, match="No space left"):
            output.write(["x" * 5000])
    assert path.read_bytes() == before
    assert len(before) > 900_000


def test_a_reader_that_has_gone_is_told_apart():
    reader, writer = os.pipe()
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        WholeLines(writer, "pipe").write(["a"])
    os.close(writer)
