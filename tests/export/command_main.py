"""Runs commands in this process; returns their output and their error."""

import contextlib
import importlib
import sys

from tests.export import commands


@contextlib.contextmanager
def loaded(name):
    """Imports a command anew, with no flags but its own and absl's."""
    replaced = sys.modules.pop(name, None)
    try:
        with commands.own_flags():
            yield importlib.import_module(name)
    finally:
        if replaced is not None:
            sys.modules[name] = replaced


def run(name, *arguments):
    """Returns what a command printed, and its InputError's message or None."""
    code, lines, err = commands.run(name, None, [], *arguments)
    message = err[-1].removeprefix("Error: ") if code else None
    return "".join(f"{line}\n" for line in lines), message
