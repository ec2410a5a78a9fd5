"""Runs the main function of a command in the tests' own process."""

import contextlib
import importlib
import io
import sys

from absl import flags

from export.common.errors import InputError
from tests.export import commands


@contextlib.contextmanager
def loaded(name):
    """Imports a command anew, with no flags but its own and absl's.

    absl's flags are one list for a process, and commands share names.
    """
    with commands.own_flags():
        replaced = sys.modules.pop(name, None)
        try:
            yield importlib.import_module(name)
        finally:
            if replaced is not None:
                sys.modules[name] = replaced


def run(name, *arguments):
    """Returns what a command printed, and its InputError's message or None."""
    printed = io.StringIO()
    with loaded(name) as module, contextlib.redirect_stdout(printed):
        flags.FLAGS([name, *map(str, arguments)])
        try:
            module.main([name])
        except InputError as error:
            return printed.getvalue(), str(error)
    return printed.getvalue(), None
