"""Lines of files: UTF-8, gzip, parallel files and references."""

import gzip
import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from export.lines.files import (
    aligned_lines,
    join_lines,
    read_lines,
    read_references,
    read_sentences,
)


def _write(path, data):
    path.write_bytes(data)
    return path


@given(
    st.lists(st.text(st.characters(exclude_characters="\ufeff"))),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", ".gz"]),
)
@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_lines_come_back_as_they_were_written(tmp_path, lines, end, packing):
    # What else a line may hold is below.
    lines = [" ".join(line.splitlines()) for line in lines]
    lines = [line for line in lines if "\0" not in line]
    try:
        data = "".join(line + end for line in lines).encode()
    except UnicodeEncodeError:
        return
    data = gzip.compress(data) if packing else data
    path = _write(tmp_path / f"text{packing}", data)
    assert list(read_lines(path)) == lines


def test_only_a_line_feed_ends_a_line(tmp_path):
    for mark in ("\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"):
        path = _write(tmp_path / "t", f"a{mark}b\nc".encode())
        assert list(read_lines(path)) == ["a b", "c"]
        # Tokens may be anything.
        assert list(read_lines(path, verbatim=True)) == [f"a{mark}b", "c"]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_is_joined_to_one_line_once(text):
    joined = join_lines(text)
    assert len(joined.splitlines()) <= 1 and "\0" not in joined
    assert joined.split() == text.replace("\0", "").split()
    assert join_lines(joined) == joined


def test_surrogates_are_refused():
    for text in ("a\ud800", "\udfffb", "\ud83d\n\ude00"):
        with pytest.raises(InputError, match="U\\+D[8-F]"):
            join_lines(text)


def test_ends_and_the_byte_order_mark(tmp_path):
    for data, lines in (
        ("\ufeffa\n\ufeffb\n".encode(), ["a", "\ufeffb"]),
        (b"x\n\ny", ["x", "", "y"]),
        (b"", []),
        ("é b\r\n\nc".encode(), ["é b", "", "c"]),
        (b"a" * ((1 << 20) - 1) + b"\nb\n", ["a" * ((1 << 20) - 1), "b"]),
    ):
        assert list(read_lines(_write(tmp_path / "t", data))) == lines


def _packed(damage):
    data = bytearray(gzip.compress(b"".join(b"%d\n" % i for i in range(9999))))
    if damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "flipped":
        data[len(data) // 2] ^= 0xFF
    else:
        data[-6] ^= 0xFF
    return bytes(data)


def test_invalid_files_are_named(tmp_path):
    (tmp_path / "folder").mkdir()
    for name, data, named in (
        ("t", b"fine\nall right\nca\xff\n", "Line 3 of"),
        ("t", "déjà\n".encode("utf-16"), "Line 1 of"),
        ("t", b"x\n" + b"a" * (1 << 20) + b"b", "Line 2 of"),
        ("t.gz", _packed("cut"), "t.gz"),
        ("t.gz", _packed("flipped"), "t.gz"),
        ("t.gz", _packed("tail"), "t.gz"),
        ("t.gz", b"not packed at all\n", "t.gz"),
        ("none", None, "none"),
        ("folder", None, "folder"),
    ):
        path = tmp_path / name
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(InputError, match=named) as caught:
            list(read_lines(path))
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("lengths", [(4, 0), (3, 7, 5)])
def test_unequal_files_are_refused_with_all_lengths(tmp_path, lengths):
    paths = [
        _write(tmp_path / f"f{i}", b"x\n" * length)
        for i, length in enumerate(lengths)
    ]
    rows = aligned_lines(paths)
    for _ in range(min(lengths)):
        next(rows)
    with pytest.raises(InputError) as caught:
        next(rows)
    for i, length in enumerate(lengths):
        assert f"f{i} has {length}" in str(caught.value)


def test_lines_are_streamed(tmp_path):
    # The broken byte is far behind the first buffer: it must not be reached.
    path = _write(tmp_path / "t", b"fine\n" * 100_000 + b"\xff\n")
    assert list(itertools.islice(read_lines(path), 2)) == ["fine"] * 2
    rows = aligned_lines([path, path])
    assert next(rows) == ("fine", "fine")
    rows.close()


def test_blank_lines_of_further_files_are_no_reference(tmp_path):
    paths = [
        _write(tmp_path / "a", b"one\n\nthree\n"),
        _write(tmp_path / "b", b"\nzwei\n \n"),
    ]
    assert read_references(paths, 3) == [
        ["one", "", "three"],
        [None, "zwei", None],
    ]
    assert read_references([], 3) == []
    with pytest.raises(InputError, match="3 lines for 4 sentences"):
        read_references(paths, 4)
    with pytest.raises(InputError, match="empty"):
        read_sentences(_write(tmp_path / "c", b""))
