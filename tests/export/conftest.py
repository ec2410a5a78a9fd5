"""What the tests of export share: a model directory, its export, a server."""

import json
import os
import pathlib
import subprocess
import tarfile

import filelock
import pytest
import tensorflow as tf

from export.translators import graph_backend
from tests import processes
from tests.export import tiny
from tests.export.server import Server

# A tenth of the time went into optimizing graphs that are run once. Exports are
# run by other sessions, which optimize them.
tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


@pytest.fixture(scope="session")
def m2m_folder(tmp_path_factory):
    """M2M-100 and NLLB-200 as Hugging Face writes them; see its README.md."""
    folder = tmp_path_factory.mktemp("m2m")
    data = pathlib.Path(__file__).parents[1] / "data" / "m2m"
    with tarfile.open(data / "models.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own that holds one megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    _mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place))
    yield place
    # Lazy: another process may still have a file open there.
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def remount_read_only():
    """Makes a `small_disk` read-only."""
    return lambda place: _mount("-o", "remount,ro", str(place))


def _mount(*arguments):
    try:
        done = subprocess.run(
            ["mount", *arguments], capture_output=True, text=True
        )
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted: {done.stderr.strip()}")


@pytest.fixture
def eager(monkeypatch):
    """Runs searches untraced, which is sooner where each is run once."""

    def convert(function, *signature, **options):
        del signature, options
        return lambda *inputs: function(*map(tf.convert_to_tensor, inputs))

    monkeypatch.setattr(graph_backend, "trace_once", convert)
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="session")
def model_path(tmp_path_factory):
    """The folder of a tiny model; no test may change it."""
    path = tmp_path_factory.mktemp("model")
    # With this seed all translations are some words, at most as long as the
    # export's can be.
    tiny.write(path, seed=5)
    return path


@pytest.fixture(scope="session")
def translator(model_path):
    """Of that model; lengths up to 8 and up to 16 ids are compiled."""
    return tiny.translator(model_path)


@pytest.fixture(scope="module")
def truncating_translator(translator):
    """The same; truncates sources as the export does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            translator.backend, "max_source_tokens", tiny.MAX_SOURCE_TOKENS
        )
        yield translator


@pytest.fixture(scope="session")
def export_command(model_path, tmp_path_factory):
    """The command, run once as a user does: (export_dir, code, out, err)."""
    base = tmp_path_factory.getbasetemp()
    # One export for all of pytest's processes.
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    export_dir, result = base / "exports" / "tiny", base / "exports.json"
    with filelock.FileLock(base / "exports.lock"):
        if not result.exists():
            done = processes.run(
                {"module": "export.saved_model"},
                [
                    f"--model_dir={model_path}",
                    f"--export_dir={export_dir}",
                    f"--max_source_tokens={tiny.MAX_SOURCE_TOKENS}",
                ],
                imported=False,
            )
            result.write_text(json.dumps([done.code, done.out, done.err]))
    return export_dir, *json.loads(result.read_text())


@pytest.fixture(scope="session")
def exported(export_command):
    """The folder of the version that the command wrote."""
    export_dir, code, _, err = export_command
    assert code == 0, err
    return export_dir / "1"


@pytest.fixture(scope="session")
def server():
    """A process that has ServerSession and none of our other modules."""
    with Server() as running:
        yield running
