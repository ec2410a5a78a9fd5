"""Files of sentences and references."""

import pytest

from export.common.errors import InputError
from export.lines.files import read_references, read_sentences


@pytest.fixture
def file(tmp_path):
    def write(name, content):
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write


def test_a_sentence_a_line(file):
    path = file("a", "é b\r\n\nc".encode())
    assert read_sentences(path) == ["é b", "", "c"]


def test_blank_lines_of_further_files_are_no_reference(file):
    paths = [file("a", b"one\n\nthree\n"), file("b", b"\nzwei\n \n")]
    assert read_references(paths, 3) == [
        ["one", "", "three"],
        [None, "zwei", None],
    ]
    assert read_references([], 3) == []


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "is empty"),
        (b"ok\n\xff\n", "Line 2 of .* is not UTF-8"),
        (b"one\ntwo\n", "has 2 lines for 3 sentences"),
    ],
)
def test_what_cannot_be_used_is_refused(file, content, message):
    path = file("a", content)
    with pytest.raises(InputError, match=message) as error:
        read_references([path], 3)
    assert str(path) in str(error.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="Cannot read .*: No such file"):
        read_sentences(tmp_path / "none")
