"""Where a stopped command goes on."""

import pytest

from export.common.errors import InputError
from export.lines.unfinished import lines_answered

SOURCE = ["one", "", "two", "", "three", "four"]


@pytest.fixture
def files(tmp_path):
    source = tmp_path / "in"
    source.write_text("".join(f"{line}\n" for line in SOURCE))
    return source, tmp_path / "out"


def _answered(files, has_answer=bool):
    return lines_answered(
        *files, has_answer, lambda line, answer: answer == line.upper()
    )


@pytest.mark.parametrize(
    "there, kept, passed",
    [
        ("", "", 0),
        ("ON", "", 0),
        ("ONE\n", "ONE\n", 1),
        ("ONE\nTWO\nTHR", "ONE\nTWO\n", 3),
        ("ONE\nTWO\nTHREE\nFOUR\n", "ONE\nTWO\nTHREE\nFOUR\n", 6),
    ],
)
def test_whole_lines_stay(files, there, kept, passed):
    files[1].write_text(there)
    assert _answered(files) == passed
    assert files[1].read_text() == kept


def test_blank_lines_may_have_answers(files):
    files[1].write_text("ONE\n\nTWO\n\n")
    assert _answered(files, lambda line: True) == 4


def test_what_is_not_there_is_begun(files):
    assert _answered(files) == 0
    assert not files[1].exists()


@pytest.mark.parametrize(
    "there", ["ONE\nthree\nTH", "ONE\nTWO\nTHREE\nFOUR\nFIVE\nSI", "\xff\n"]
)
def test_other_output_is_refused_and_stays(files, there):
    files[1].write_text(there, "latin-1")
    with pytest.raises(InputError, match="does not hold the answers to the"):
        _answered(files)
    assert files[1].read_text("latin-1") == there


def test_a_folder_is_refused(files):
    files[1].mkdir()
    with pytest.raises(InputError, match="cannot be gone on with: Is a dir"):
        _answered(files)
