"""Files and folders that are whole or not there."""

import contextlib
import errno
import json
import os
import pathlib
import platform

import pytest

from export.common.atomic_files import atomic_write, write_json
from export.common.errors import InputError


class Fault(Exception):
    """A fault of ours, which must pass through unchanged."""


def content(folder):
    """Every path below a folder, hidden ones too, with its bytes."""
    return {
        path.relative_to(folder).as_posix(): path.is_file()
        and path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def write_file(path, data=b"new"):
    with atomic_write(path) as temporary:
        temporary.write_bytes(data)


def write_folder(path):
    with atomic_write(path) as temporary:
        (temporary / "inner").mkdir(parents=True)
        (temporary / "inner" / "a").write_bytes(b"a")
        (temporary / "b").write_bytes(b"b")


FOLDER = {"f": False, "f/b": b"b", "f/inner": False, "f/inner/a": b"a"}


def test_a_file_appears_whole(tmp_path):
    write_file(tmp_path / "f")
    assert content(tmp_path) == {"f": b"new"}


def test_a_file_takes_the_place_of_another(tmp_path):
    (tmp_path / "f").write_bytes(b"old")
    write_file(tmp_path / "f")
    assert content(tmp_path) == {"f": b"new"}


def test_a_folder_appears_whole(tmp_path):
    write_folder(tmp_path / "f")
    assert content(tmp_path) == FOLDER


def test_folders_above_are_made(tmp_path):
    write_file(tmp_path / "x" / "y" / "f")
    assert content(tmp_path) == {"x": False, "x/y": False, "x/y/f": b"new"}


def test_nothing_is_there_under_the_name_before_the_end(tmp_path):
    with atomic_write(tmp_path / "f.h5") as temporary:
        assert not temporary.exists()
        assert temporary.parent == tmp_path
        # Keras decides by the end of the name what to write.
        assert temporary.name.endswith("f.h5")
        temporary.write_bytes(b"half")
        assert not (tmp_path / "f.h5").exists()
        temporary.write_bytes(b"whole")
    assert content(tmp_path) == {"f.h5": b"whole"}


def test_a_version_is_no_number_before_the_end(tmp_path):
    with atomic_write(tmp_path / "7") as temporary:
        temporary.mkdir()
        names = [path.name for path in tmp_path.iterdir()]
        assert not any(name.isdecimal() for name in names)


@pytest.mark.parametrize(
    "failure", [Fault, KeyboardInterrupt, SystemExit], ids=str
)
def test_a_failure_leaves_what_was_there(tmp_path, failure):
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(failure), atomic_write(tmp_path / "f") as temporary:
        temporary.write_bytes(b"half")
        raise failure
    assert content(tmp_path) == {"f": b"old"}


def test_a_failure_leaves_no_half_folder(tmp_path):
    with pytest.raises(Fault), atomic_write(tmp_path / "f") as temporary:
        (temporary / "inner").mkdir(parents=True)
        (temporary / "inner" / "a").write_bytes(b"half")
        raise Fault
    assert content(tmp_path) == {}


def test_a_folder_that_holds_something_is_not_replaced(tmp_path):
    write_folder(tmp_path / "f")
    with (
        pytest.raises(InputError, match=f"Cannot write {tmp_path / 'f'}: "),
        atomic_write(tmp_path / "f") as temporary,
    ):
        temporary.mkdir()
        (temporary / "other").write_bytes(b"other")
    assert content(tmp_path) == FOLDER


def test_what_a_killed_process_left_is_not_taken_over(tmp_path):
    # A container's processes have the same number each time it starts.
    with contextlib.suppress(Fault), atomic_write(tmp_path / "f") as one:
        left = one
        raise Fault
    left.mkdir()
    (left / "stale").write_bytes(b"stale")
    with atomic_write(tmp_path / "f") as temporary:
        assert not temporary.exists()
        temporary.mkdir(exist_ok=True)
        (temporary / "b").write_bytes(b"b")
    assert content(tmp_path) == {"f": False, "f/b": b"b"}


@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT]
)
def test_what_the_system_refuses_is_the_users_to_put_right(tmp_path, code):
    (tmp_path / "f").write_bytes(b"old")
    with (
        pytest.raises(InputError) as caught,
        atomic_write(tmp_path / "f") as temporary,
    ):
        temporary.write_bytes(b"half")
        raise OSError(code, os.strerror(code))
    assert str(tmp_path / "f") in str(caught.value)
    assert os.strerror(code) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert content(tmp_path) == {"f": b"old"}


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_disk_that_is_full_at_the_end(tmp_path, monkeypatch, step):
    # Some file systems say so only when the data goes to the disk.
    def refuse(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    place = pathlib.Path if step == "replace" else os
    monkeypatch.setattr(place, step, refuse)
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(InputError, match="No space left on device"):
        write_file(tmp_path / "f")
    assert content(tmp_path) == {"f": b"old"}


def test_all_data_is_on_the_disk_before_the_name_is(tmp_path, monkeypatch):
    flushed = []
    fsync = os.fsync

    def record(number):
        assert not (tmp_path / "f").exists()
        flushed.append(os.fstat(number).st_ino)
        fsync(number)

    monkeypatch.setattr(os, "fsync", record)
    write_folder(tmp_path / "f")
    written = [tmp_path / "f" / "inner" / "a", tmp_path / "f" / "b"]
    assert {path.stat().st_ino for path in written} <= set(flushed)


def test_a_really_full_disk(small_disk):
    (small_disk / "f").write_bytes(b"old")
    before = content(small_disk)
    with pytest.raises(InputError, match="No space left on device"):
        write_file(small_disk / "f", b"x" * 2_000_000)
    assert content(small_disk) == before
    write_file(small_disk / "f")
    assert content(small_disk) == {"f": b"new"}


def test_a_read_only_disk(small_disk, remount_read_only):
    (small_disk / "f").write_bytes(b"old")
    remount_read_only(small_disk)
    with pytest.raises(InputError, match="Read-only file system"):
        write_file(small_disk / "f")
    with pytest.raises(InputError, match="Read-only file system"):
        write_file(small_disk / "folder" / "f")
    assert content(small_disk) == {"f": b"old"}


def test_a_file_where_a_folder_should_be(tmp_path):
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(InputError, match="Cannot write"):
        write_file(tmp_path / "f" / "g")
    with pytest.raises(InputError, match="Cannot write"):
        write_file(tmp_path / "f" / "g" / "h")
    assert content(tmp_path) == {"f": b"old"}


def test_a_name_that_is_too_long(tmp_path):
    with pytest.raises(InputError, match="File name too long"):
        write_file(tmp_path / ("n" * 300))
    assert content(tmp_path) == {}


def test_a_block_that_writes_nothing_is_told_so(tmp_path):
    with pytest.raises(InputError), atomic_write(tmp_path / "f"):
        pass
    assert content(tmp_path) == {}


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    assert len(list(tmp_path.iterdir())) == 2


def test_permissions_stay(tmp_path):
    (tmp_path / "f").write_bytes(b"old")
    (tmp_path / "f").chmod(0o600)
    write_file(tmp_path / "f")
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600


def test_a_pipe_is_not_replaced(tmp_path):
    """Nor is a device, which only root can make."""
    os.mkfifo(tmp_path / "f")
    with pytest.raises(InputError, match="f is no place for a file"):
        write_file(tmp_path / "f")
    assert (tmp_path / "f").is_fifo()


@pytest.mark.parametrize("name", [".", "..", "/"])
def test_a_folder_in_use_is_not_replaced(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(InputError):
        write_file(name)
    assert content(tmp_path) == {"f": b"old"}


def test_two_who_write_one_file_at_once(tmp_path, monkeypatch):
    """As in two containers, whose processes may have one number."""
    with atomic_write(tmp_path / "f") as one:
        one.write_bytes(b"one")
        monkeypatch.setattr(platform, "node", lambda: "another")
        with atomic_write(tmp_path / "f") as other:
            other.write_bytes(b"other")
        assert content(tmp_path)["f"] == b"other"
        assert one.read_bytes() == b"one"
    assert content(tmp_path) == {"f": b"one"}


def test_json_is_readable_and_takes_any_path(tmp_path):
    # A path that is not UTF-8 has half of a character.
    data = {"é": ["\u4f60", os.fsdecode(b"a\xff")]}
    write_json(tmp_path / "f", data)
    text = (tmp_path / "f").read_text("utf-8")
    assert json.loads(text) == data
    assert "\u4f60" in text and text.endswith("}\n")
