import gzip
import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from export.common.errors import InputError
from export.lines.files import aligned_lines, join_lines, read_lines


def _write(path, data):
    path.write_bytes(data)
    return path


@given(
    st.lists(st.text(st.characters(exclude_characters="\ufeff"))),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", ".gz"]),
)
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
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


@pytest.mark.parametrize(
    "mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r"]
)
def test_only_a_line_feed_ends_a_line(tmp_path, mark):
    path = _write(tmp_path / "t", f"a{mark}b\nc".encode())
    assert list(read_lines(path)) == ["a b", "c"]
    # Pieces may be anything.
    assert list(read_lines(path, verbatim=True)) == [f"a{mark}b", "c"]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_is_joined_to_one_line_once(text):
    joined = join_lines(text)
    assert len(joined.splitlines()) <= 1 and "\0" not in joined
    assert joined.split() == text.replace("\0", "").split()
    assert join_lines(joined) == joined


@pytest.mark.parametrize("text", ["a\ud800", "\udfffb", "\ud83d\n\ude00"])
def test_half_a_character_is_refused(text):
    with pytest.raises(InputError, match="it holds U\\+D[8-F]"):
        join_lines(text)


def test_the_byte_order_mark_goes_only_at_the_start(tmp_path):
    path = _write(tmp_path / "t", "\ufeffa\n\ufeffb\n".encode())
    assert list(read_lines(path)) == ["a", "\ufeffb"]


def test_a_last_line_needs_no_end_and_an_empty_file_has_none(tmp_path):
    assert list(read_lines(_write(tmp_path / "a", b"x\n\ny"))) == ["x", "", "y"]
    assert list(read_lines(_write(tmp_path / "b", b""))) == []


def test_bytes_that_are_not_utf8_are_named_with_file_and_line(tmp_path):
    path = _write(tmp_path / "t.en", b"fine\nall right\nca\xff\n")
    reader = read_lines(path)
    assert list(itertools.islice(reader, 2)) == ["fine", "all right"]
    with pytest.raises(InputError, match=r"Line 3 of .*t\.en is not UTF-8"):
        next(reader)


def test_latin_1_and_utf_16_are_refused(tmp_path):
    for encoding in ("latin-1", "utf-16"):
        path = _write(tmp_path / encoding, "déjà\n".encode(encoding))
        with pytest.raises(InputError, match="Line 1 of .* is not UTF-8"):
            list(read_lines(path))


@pytest.mark.parametrize("damage", ["cut", "flipped", "plain", "tail"])
def test_a_damaged_gzip_file_is_refused(tmp_path, damage):
    data = bytearray(gzip.compress(b"".join(b"%d\n" % i for i in range(9999))))
    if damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "flipped":
        data[len(data) // 2] ^= 0xFF
    elif damage == "tail":
        data[-6] ^= 0xFF
    else:
        data = bytearray(b"not packed at all\n")
    path = _write(tmp_path / "t.en.gz", bytes(data))
    with pytest.raises(InputError, match=r"t\.en\.gz is not a whole gzip"):
        list(read_lines(path))


def test_a_folder_and_a_missing_file_are_refused(tmp_path):
    (tmp_path / "d.gz").mkdir()
    for path in (tmp_path, tmp_path / "d.gz"):
        with pytest.raises(InputError, match="is a folder"):
            list(read_lines(path))
    with pytest.raises(InputError, match="Cannot read .*gone"):
        list(read_lines(tmp_path / "gone"))


def test_a_file_without_line_ends_is_not_read_whole(tmp_path):
    path = _write(tmp_path / "t", b"x\n" + b"a" * (1 << 20) + b"b")
    with pytest.raises(InputError, match="Line 2 of .* is longer than"):
        list(read_lines(path))
    path = _write(tmp_path / "fits", b"a" * ((1 << 20) - 1) + b"\nb\n")
    assert [len(line) for line in read_lines(path)] == [(1 << 20) - 1, 1]


@pytest.mark.parametrize(
    "lengths", [(3, 5), (5, 3), (0, 1), (4, 0), (3, 3, 4), (3, 7, 5)]
)
def test_unequal_files_are_refused_with_all_lengths(tmp_path, lengths):
    paths = [
        _write(tmp_path / f"f{i}", b"x\n" * length)
        for i, length in enumerate(lengths)
    ]
    read = []
    with pytest.raises(InputError) as caught:
        for row in aligned_lines(paths):
            read.append(row)
    assert len(read) == min(lengths)
    for i, length in enumerate(lengths):
        assert f"f{i} has {length}" in str(caught.value)


def test_lines_are_streamed(tmp_path):
    # The broken byte is far behind the first buffer: it must not be reached.
    path = _write(tmp_path / "t", b"fine\n" * 100_000 + b"\xff\n")
    rows = aligned_lines([path, path])
    assert next(rows) == ("fine", "fine")
    rows.close()
