"""Lines in, lines out: formats, chunks, writing and resuming."""

import io
import os
import queue
import sys
import threading

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from export.lines.files import DecodedLines
from export.lines.streams import (
    LineWriter,
    count_processed_lines,
    line_format,
    process_chunks,
    process_lines,
    read_chunks,
)
from export.translators.translation import BLANK, Translation

FOUND = [
    Translation(
        *("le chat", -0.25, ((0, 0), (2, 1))),
        word_log_probs=(-0.5, -2.0),
        suspect="short",
    ),
    Translation("un\nch\tat", -1.5),
]


def test_formats():
    for form, lines, of_blank in (
        (line_format(), ["le chat"], ""),
        (line_format(scores=True), ["-0.250000\tle chat"], "0.000000\t"),
        (line_format(alignments=True), ["le chat\t0-0 2-1"], "\t"),
        (
            line_format(scores=True, alignments=True),
            ["-0.250000\tle chat\t0-0 2-1"],
            "0.000000\t\t",
        ),
        (
            line_format(alignments=True, confidence=True),
            ["le chat\t0-0 2-1\t-0.500 -2.000"],
            "\t\t",
        ),
        (line_format(suspect=True), ["le chat\tshort"], "\t"),
        (
            line_format(is_n_best=True),
            ["7 ||| le chat ||| -0.250000", "7 ||| un ch at ||| -1.500000"],
            "7 |||  ||| 0.000000",
        ),
    ):
        assert form(7, FOUND) == lines
        assert form(7, [BLANK]) == [of_blank]


def upper(texts):
    return [
        [Translation(text.upper(), 0.0, source_truncated=len(text) > 3)]
        for text in texts
    ]


def test_lines_are_written_chunk_by_chunk_in_order():
    chunks, written = ["a", "bc", "def", "g"], []
    to_lines = line_format(is_n_best=True)
    result = process_chunks(chunks, upper, to_lines, written.append)
    assert [[line.split(" ||| ")[1] for line in each] for each in written] == [
        [*each.upper()] for each in chunks
    ]
    numbers = [line[0] for lines in written for line in lines]
    assert numbers == [*map(str, range(7))]
    assert result == (0, [])
    # Truncated lines are counted, and the first ones named.
    chunks = [["a", "long"], ["b", "long"], ["long", ""], ["long"]]
    result = process_chunks(chunks, upper, line_format(), len)
    assert result == (4, [2, 4, 5])


def test_chunks_grow_up_to_a_limit_and_nothing_more_is_read_ahead():
    read = []
    lines = (read.append(number) or "x" for number in range(13_000))
    ahead = [(len(read), len(chunk)) for chunk in read_chunks(lines, [])]
    sizes = [128, 256, 512, 1024, 2048, 4096, 4096, 840]
    assert ahead == [(sum(sizes[: i + 1]), n) for i, n in enumerate(sizes)]


@given(
    st.lists(st.text("ab\n", min_size=1, max_size=9), max_size=5),
    st.booleans(),
)
@example(["a\nb", "c", "\n", "d"], False)
@settings(max_examples=25)
def test_lines_are_taken_when_the_input_pauses(blocks, is_paired):
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


LINES = ["é" * n for n in (0, 1, 100, 3000, 0, 5000, 2, 2047, 2048)]
LINES += ["x"] * 99


def test_every_write_is_of_complete_lines(monkeypatch):
    blocks = []
    monkeypatch.setattr(
        os, "write", lambda _, block: blocks.append(bytes(block)) or len(block)
    )
    LineWriter(1, "out").write(LINES * 3)
    text = "".join(f"{line}\n" for line in LINES * 3)
    assert b"".join(blocks).decode() == text
    blocks = [block for block in blocks if block]
    assert all(block.endswith(b"\n") for block in blocks)
    assert all(
        len(block) <= 4096 or block.count(b"\n") == 1 for block in blocks
    )
    assert len(blocks) < len(LINES)


def test_a_full_disk_leaves_complete_lines_and_what_was_there(small_disk):
    path, line = small_disk / "out", "x" * 100
    with path.open("wb") as file:
        output = LineWriter(file.fileno(), str(path))
        with pytest.raises(InputError, match=f"{path}.* No space left"):
            output.write([line] * 20_000)
    before = path.read_bytes()
    assert len(before) > 900_000
    assert set(before.splitlines(keepends=True)) == {f"{line}\n".encode()}
    # As after `>>`: opened to append, the file stands at its start.
    with path.open("ab") as file:
        output = LineWriter(file.fileno(), str(path))
        with pytest.raises(InputError, match="No space left"):
            output.write(["x" * 5000])
    assert path.read_bytes() == before


def test_a_file_is_not_written_over_itself(tmp_path, monkeypatch):
    path = tmp_path / "in"
    path.write_text("ba.\n")
    with path.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        for source in (str(path), None):
            with pytest.raises(InputError, match=f"--output={path}"):
                process_lines("Testing", source, str(path), None, None)
    assert path.read_text() == "ba.\n"


@pytest.fixture
def files(tmp_path):
    source = tmp_path / "in"
    source.write_text("one\n\ntwo\n\nthree\nfour\n")
    return source, tmp_path / "out"


def answered(files, has_answer=bool):
    return count_processed_lines(
        *files, has_answer, lambda line, answer: answer == line.upper()
    )


def test_resuming_keeps_complete_lines(files):
    for there, kept, count in (
        ("", "", 0),
        ("ON", "", 0),
        ("ONE\n", "ONE\n", 1),
        ("ONE\nTWO\nTHR", "ONE\nTWO\n", 3),
        ("ONE\nTWO\nTHREE\nFOUR\n", "ONE\nTWO\nTHREE\nFOUR\n", 6),
    ):
        files[1].write_text(there)
        assert answered(files) == count
        assert files[1].read_text() == kept
    # Blank lines may have answers, and the output need not exist.
    files[1].write_text("ONE\n\nTWO\n\n")
    assert answered(files, lambda line: True) == 4
    files[1].unlink()
    assert answered(files) == 0
    assert not files[1].exists()


def test_output_of_another_source_is_refused_and_stays(files):
    for there in ("ONE\nthree\nTH", "ONE\nTWO\nTHREE\nFOUR\nFIVE\n", "\xff\n"):
        files[1].write_text(there, "latin-1")
        with pytest.raises(InputError, match=f"--output={files[1]}"):
            answered(files)
        assert files[1].read_text("latin-1") == there
