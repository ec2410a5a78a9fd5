"""Exports in memory: loaded when used or changed, unloaded when idle.

Not for model directories, whose memory is not freed: each load of the demo's
added some 55 MB, although all of its layers were gone.
"""

import ctypes
import functools
import gc
import logging
import threading
import time
from collections.abc import Callable, Hashable

import psutil

from export.common.errors import InputError
from export.loading import LoadedModel

_LOGGER = logging.getLogger(__name__)
# After a new export that cannot be used, which may still be written.
_RETRY_SECONDS = 10.0


class ModelPool:
    """Exports that are loaded when used; the least recently used are unloaded.

    Args:
        max_bytes: resident memory of the process above which all exports are
            unloaded that do not run, but the last used; None for no bound.
        read_memory: function that returns this memory, in bytes.
    """

    def __init__(
        self,
        max_bytes: int | None = None,
        read_memory: Callable[[], int] | None = None,
    ):
        self._max_bytes = max_bytes
        self._read_memory = read_memory or _read_resident_memory
        # The least recently used first.
        self._entries: dict[str, _Entry] = {}
        self._lock, self._is_loading = threading.Lock(), threading.Lock()

    def add(
        self,
        name: str,
        load: Callable[[], LoadedModel],
        find_version: Callable[[], Hashable],
    ) -> LoadedModel:
        """Loads a model; returns it with a `run` that loads it when needed.

        It is loaded again when `find_version()` changes; while that fails, or
        if the new one has other languages, beams or signatures, the old one is
        used. `name` is for the log.
        """
        entry = self._entries[name] = _Entry(load, find_version)
        model = self._load(name, entry, find_version())
        entry.interface = model[1:]
        return model._replace(run=functools.partial(self._run, name))

    def loaded_names(self) -> list[str]:
        """Returns the names of the models in memory, the last used last."""
        with self._lock:
            return [
                name
                for name, entry in self._entries.items()
                if entry.model is not None
            ]

    def _run(self, name, signature, inputs):
        entry = self._entries[name]
        with self._lock:
            entry.num_running += 1
            self._entries[name] = self._entries.pop(name)
        try:
            return self._find_model(name, entry).run(signature, inputs)
        finally:
            with self._lock:
                entry.num_running -= 1
            self._unload_idle()

    def _find_model(self, name, entry):
        """Returns the LoadedModel on disk, or the one still in memory."""
        try:
            version = entry.find_version()
        except (InputError, OSError):
            # Being replaced, or removed.
            version = entry.version
        # No other thread unloads it while it runs.
        if entry.model is not None and entry.is_current(version):
            return entry.model
        with self._is_loading:
            if entry.model is not None and entry.is_current(version):
                return entry.model
            try:
                return self._load(name, entry, version)
            except Exception:
                if entry.model is None:
                    raise
                entry.retry_time = time.monotonic() + _RETRY_SECONDS
                _LOGGER.exception("%s has changed, but cannot be used.", name)
                return entry.model

    def _load(self, name, entry, version):
        model = entry.load()
        if entry.interface is not None and model[1:] != entry.interface:
            raise InputError(
                f"The new model of {name} has other languages, beams or "
                "signatures: start the server again."
            )
        is_replaced = entry.model is not None
        entry.model, entry.version = model, version
        if is_replaced:
            _return_memory()
        self._unload_idle()
        return model

    def _unload_idle(self):
        """Unloads exports that do not run while memory exceeds its bound."""
        while self._max_bytes and self._read_memory() > self._max_bytes:
            with self._lock:
                idle = [
                    entry
                    for entry in [*self._entries.values()][:-1]
                    if entry.model is not None and not entry.num_running
                ]
                if not idle:
                    return
                idle[0].model = None
            _return_memory()


class _Entry:
    """A model of a pool, which may be loaded."""

    def __init__(self, load, find_version):
        self.load, self.find_version = load, find_version
        self.model = self.version = self.interface = None
        self.num_running = 0
        self.retry_time = 0.0

    def is_current(self, version):
        return version == self.version or time.monotonic() < self.retry_time


def _read_resident_memory():
    return psutil.Process().memory_info().rss


def _return_memory():
    """Returns the memory of what is no longer used to the system."""
    gc.collect()
    trim_memory()


def trim_memory() -> None:
    """Returns freed memory to the system, where its C library can do so."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
