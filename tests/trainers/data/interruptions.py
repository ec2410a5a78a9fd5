"""Ends a preparation at any of its writes, as a power cut would."""

import contextlib

from export.common import storage
from export.common.storage import atomic_write


class Killed(BaseException):
    """Nobody catches this."""


@contextlib.contextmanager
def at_write(
    monkeypatch, number=None, when="after", error=Killed, modules=(storage,)
):
    """Raises `error` at one write of these modules.

    `number` counts writes from 0; with None, none of them fails. `when` is
    "before" the write, "half" through it, or "after" it. Yields the list of the
    names of written files, in order.
    """
    names = []

    @contextlib.contextmanager
    def hooked(path):
        names.append(path.name)
        moment = when if len(names) - 1 == number else None
        if moment == "before":
            raise error
        with atomic_write(path) as temporary:
            yield temporary
            if moment == "half":
                raise error
        if moment == "after":
            raise error

    with monkeypatch.context() as patch:
        for module in modules:
            patch.setattr(module, "atomic_write", hooked)
        yield names
