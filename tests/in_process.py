"""Runs a command in this process, which has imported TensorFlow already."""

import contextlib
import io
import os
import runpy
import sys
import tempfile
from unittest import mock

from absl import flags

from tests.processes import ROOT, Result


def run(module, arguments, folder=ROOT, source=b""):
    """Runs `python -m module arguments` and returns its Result.

    `source` are the bytes of its standard input, `folder` is where it runs.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_no_flags())
        files = [
            stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)
        ]
        files[0].write(source)
        files[0].seek(0)
        for name, file in zip(("stdin", "stdout", "stderr"), files):
            stream = io.TextIOWrapper(file, "utf-8", write_through=True)
            stack.callback(stream.detach)
            stack.enter_context(mock.patch.object(sys, name, stream))
        arguments = [module, *map(str, arguments)]
        stack.enter_context(mock.patch.object(sys, "argv", arguments))
        stack.enter_context(contextlib.chdir(folder))
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            code = end.code or 0
        out, err = (_content(file) for file in files[1:])
    return Result(code, out, err)


@contextlib.contextmanager
def _no_flags():
    """Removes flags: another command may define one of the same name."""
    earlier, was_parsed = _remove_flags(), flags.FLAGS.is_parsed()
    try:
        yield
    finally:
        _remove_flags()
        for name, flag in earlier.items():
            flags.FLAGS[name] = flag
        if not was_parsed:
            flags.FLAGS.unparse_flags()


def _remove_flags():
    found = {}
    for name in list(flags.FLAGS):
        module = flags.FLAGS.find_module_defining_flag(name, "")
        if not module.startswith("absl"):
            found[name] = flags.FLAGS[name]
            delattr(flags.FLAGS, name)
    return found


def _content(file):
    file.seek(0, os.SEEK_SET)
    return file.read().decode("utf-8")
