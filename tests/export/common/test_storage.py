"""Files and folders that are complete or do not exist."""

import contextlib
import errno
import json
import os
import pathlib
import platform

import pytest

from export.common.errors import InputError
from export.common.storage import atomic_write, write_json


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


@pytest.fixture
def old(tmp_path):
    """A file that is there before."""
    (tmp_path / "f").write_bytes(b"old")
    return tmp_path / "f"


def test_files_and_folders_appear_whole(tmp_path):
    write_folder(tmp_path / "f")
    assert content(tmp_path) == FOLDER
    # A folder that holds something is not replaced.
    with pytest.raises(InputError, match=f"Cannot write {tmp_path / 'f'}: "):
        write_folder(tmp_path / "f")
    # Parent folders are created, and a file replaces another.
    for name in ("x.h5", "7"):
        for data in (b"old", b"new"):
            with atomic_write(tmp_path / "f" / "x" / name) as temporary:
                assert not temporary.exists()
                assert temporary.parent == tmp_path / "f" / "x"
                # Keras decides by the end of the name what to write, and a
                # server by the beginning whether it is a version.
                assert temporary.name.endswith(name)
                assert not temporary.name.isdecimal()
                temporary.write_bytes(data)
    new = {"f/x": False, "f/x/7": b"new", "f/x/x.h5": b"new"}
    assert content(tmp_path) == FOLDER | new


@pytest.mark.parametrize("failure", [Fault, KeyboardInterrupt])
def test_a_failure_leaves_what_was_there(tmp_path, old, failure):
    for path in (old, tmp_path / "g"):
        with pytest.raises(failure), atomic_write(path) as temporary:
            temporary.mkdir()
            (temporary / "a").write_bytes(b"half")
            raise failure
    assert content(tmp_path) == {"f": b"old"}


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


def test_errors_of_the_system_name_the_file(tmp_path, old, monkeypatch):
    with pytest.raises(InputError, match="File name too long"):
        write_file(tmp_path / ("n" * 300))
    for path in (old / "g", old / "g" / "h"):
        with pytest.raises(InputError, match="Cannot write"):
            write_file(path)
    with pytest.raises(InputError), atomic_write(tmp_path / "nothing"):
        pass

    # Some file systems tell only when the data goes to the disk.
    def refuse(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for place, step in ((os, "fsync"), (pathlib.Path, "replace")):
        with monkeypatch.context() as patch:
            patch.setattr(place, step, refuse)
            with pytest.raises(InputError, match=f"{old}: No space left on"):
                write_file(old)
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


def test_a_really_full_or_read_only_disk(small_disk, remount_read_only):
    (small_disk / "f").write_bytes(b"old")
    before = content(small_disk)
    with pytest.raises(InputError, match="No space left on device"):
        write_file(small_disk / "f", b"x" * 2_000_000)
    assert content(small_disk) == before
    remount_read_only(small_disk)
    for name in ("f", "folder/f"):
        with pytest.raises(InputError, match="Read-only file system"):
            write_file(small_disk / name)
    assert content(small_disk) == before


def test_links_and_permissions_stay(tmp_path, old):
    old.chmod(0o600)
    (tmp_path / "link").symlink_to("f")
    write_file(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert old.read_bytes() == b"new"
    assert old.stat().st_mode & 0o777 == 0o600
    assert len(list(tmp_path.iterdir())) == 2


def test_pipes_and_folders_in_use_are_not_replaced(tmp_path, monkeypatch, old):
    """Nor are devices, which only root can make."""
    monkeypatch.chdir(tmp_path)
    for name in (".", "..", "/"):
        with pytest.raises(InputError):
            write_file(name)
    assert content(tmp_path) == {"f": b"old"}
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe cannot be replaced"):
        write_file(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


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
