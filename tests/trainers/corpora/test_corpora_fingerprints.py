import pytest

from export.errors import InputError
from trainers.corpora.corpus import (
    describe_fingerprint_change,
    file_fingerprint,
    text_fingerprint,
)

MEGABYTE = 1 << 20


@pytest.mark.parametrize("place", [0, MEGABYTE - 1, 2 * MEGABYTE, -1])
def test_a_changed_byte_in_the_first_or_last_megabyte_shows(tmp_path, place):
    path = tmp_path / "data"
    data = bytearray(3 * MEGABYTE)
    path.write_bytes(data)
    before = file_fingerprint([path])
    data[place] = 1
    path.write_bytes(data)
    assert file_fingerprint([path]) != before


def test_a_changed_size_shows(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(bytes(4 * MEGABYTE))
    before = file_fingerprint([path])
    path.write_bytes(bytes(4 * MEGABYTE + 1))
    assert file_fingerprint([path]) != before


def test_small_files_count_whole_and_by_name_not_by_folder(tmp_path):
    first, second = tmp_path / "a" / "x", tmp_path / "b" / "x"
    other = tmp_path / "a" / "y"
    for path in (first, second, other):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"abc")
    assert file_fingerprint([first]) == file_fingerprint([second])
    assert file_fingerprint([first]) != file_fingerprint([other])
    assert file_fingerprint([first, other]) != file_fingerprint([other, first])


def test_it_is_short_hex():
    value = text_fingerprint("a", "b")
    assert len(value) == 16
    int(value, 16)


def test_the_parts_are_kept_apart():
    assert text_fingerprint("ab", "c") != text_fingerprint("a", "bc")


def test_a_file_that_is_gone_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="gone"):
        file_fingerprint([tmp_path / "gone"])


def test_what_changed_is_told_by_file(tmp_path):
    paths = [tmp_path / name for name in ("a b.en", "a b.xx", "c")]
    for path in paths:
        path.write_bytes(b"abc")
    before = file_fingerprint(paths[:2])
    paths[0].write_bytes(b"abcd")
    paths[1].write_bytes(b"abd")
    assert describe_fingerprint_change(before, file_fingerprint(paths)) == (
        "a b.en had 3 bytes and has 4, a b.xx had 3 bytes and has 3, of other "
        "text, c is new"
    )
    assert describe_fingerprint_change(
        before, file_fingerprint(paths[:1])
    ).endswith("a b.xx is gone")
    assert (
        describe_fingerprint_change("ab", "ac")
        == "its fingerprint was ab and is ac"
    )
