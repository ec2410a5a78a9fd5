"""Hides harmless lines of TensorFlow's log.

Its libraries write some while they are imported, whatever the log level is.
"""

import importlib.abc
import importlib.util
import os
import pathlib
import re
import sys
import tempfile

_HARMLESS = re.compile(
    rb"All log messages before absl::InitializeLog|oneDNN custom operations|"
    rb"cpu_feature_guard|To enable the following instructions|"
    rb"Unable to register cu\w+ factory"
)
_NO_GPU = re.compile(rb"Could not find cuda drivers|failed call to cuInit")
# Of NVIDIA's driver, of WSL's and of AMD's.
_GPU_DRIVERS = "/dev/nvidiactl", "/dev/dxg", "/dev/kfd"


def quiet_tensorflow(hides_import: bool) -> None:
    """Sets the log level unless it is set; to be called before any import.

    On a machine with a GPU, errors are shown: they say why it cannot be used.
    """
    level = "2" if _has_gpu() else "3"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", level)
    if hides_import:
        sys.meta_path.insert(0, _QuietImport())


class _QuietImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A finder of the package tensorflow that shows what else it writes."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None:
            self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        try:
            written = tempfile.TemporaryFile()  # noqa: SIM115
        except OSError:
            # No folder is writable.
            self._loader.exec_module(module)
            return
        original = os.dup(2)
        with written as file:
            os.dup2(file.fileno(), 2)
            try:
                self._loader.exec_module(module)
            finally:
                os.dup2(original, 2)
                os.close(original)
                file.seek(0)
                with open(2, "wb", closefd=False) as stderr:
                    stderr.writelines(filter(_matters, file))


def _matters(line):
    harmless = _HARMLESS.search(line)
    return not (harmless or (_NO_GPU.search(line) and not _has_gpu()))


def _has_gpu():
    return any(pathlib.Path(path).exists() for path in _GPU_DRIVERS)
