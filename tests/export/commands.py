"""Runs commands in this process, or as processes of their own."""

import contextlib
import copy
import importlib.util
import sys
import tempfile
from unittest import mock

from absl import app, flags

from tests import processes

_PACKAGES = ("export", "trainers", "benchmarks")


def run(module, model, texts, *arguments):
    """Returns (exit code, lines of stdout, lines of stderr) of `python -m`.

    It runs in this process. `texts` are lines or bytes of standard input.
    """
    spec = importlib.util.find_spec(module)
    if spec.submodule_search_locations:
        spec = importlib.util.find_spec(f"{module}.__main__")
    code = spec.loader.get_code(spec.name)
    arguments = _arguments(model, arguments)
    return run_main(
        lambda: exec(code, {"__name__": "__main__"}), texts, arguments
    )


def run_main(main, texts, arguments):
    """The same for a function that defines flags and calls `command.run`."""
    with contextlib.ExitStack() as stack:
        files = [
            stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))
            for _ in range(3)
        ]
        files[0].buffer.write(_to_bytes(texts))
        files[0].seek(0)
        for name, value in (
            *zip(("stdin", "stdout", "stderr"), files),
            ("argv", ["command", *arguments]),
        ):
            stack.enter_context(mock.patch.object(sys, name, value))
        # absl's own would change the logging of all later tests.
        stack.enter_context(mock.patch.object(app, "run", _run_app))
        stack.enter_context(own_flags())
        try:
            main()
            code = 0
        except SystemExit as stopped:
            code = stopped.code or 0
        out, err = map(_content, files[1:])
    assert "Traceback" not in err
    assert out == "" or out.endswith("\n")
    return code, out.split("\n")[:-1], err.splitlines()


def _run_app(main):
    try:
        operands = flags.FLAGS(sys.argv)
    except flags.Error as error:
        print(f"FATAL Flags parsing error: {error}", file=sys.stderr)
        sys.exit(1)
    sys.exit(main(operands))


@contextlib.contextmanager
def own_flags():
    """Removes the flags of other commands, which may have the same names."""
    before = dict(flags.FLAGS.__dict__)
    own = copy.deepcopy(flags.FLAGS)
    for module, defined in own.flags_by_module_dict().items():
        if module.partition(".")[0] in _PACKAGES:
            for flag in [*defined]:
                delattr(own, flag.name)
    flags.FLAGS.__dict__.update(own.__dict__)
    try:
        yield
    finally:
        flags.FLAGS.__dict__.update(before)


def _content(file):
    file.flush()
    file.seek(0)
    return file.read()


def start(module, model, *arguments, variables=(), **streams):
    """Starts `python -m module` as a user does; see `processes.start`."""
    return processes.start(
        {"module": module},
        _arguments(model, arguments),
        environment=environment() | dict(variables),
        imported=False,
        **streams,
    )


def run_alone(module, model, texts, *arguments, variables=()):
    """As `run`, in a process of its own, imports and all."""
    done = processes.run(
        {"module": module},
        _arguments(model, arguments),
        environment=environment() | dict(variables),
        source=_to_bytes(texts),
        imported=False,
    )
    return done.code, done.out.split("\n")[:-1], done.err.splitlines()


def _arguments(model, others):
    return [*([f"--model={model}"] if model else []), *map(str, others)]


def environment():
    return processes.user_environment() | {"TF_CPP_MIN_LOG_LEVEL": "3"}


def _to_bytes(texts):
    if isinstance(texts, bytes):
        return texts
    return "".join(f"{text}\n" for text in texts).encode()


def output_and_error(module, *arguments):
    """Returns a command's output, and its InputError's message or None."""
    code, lines, err = run(module, None, [], *arguments)
    message = err[-1].removeprefix("Error: ") if code else None
    return "".join(f"{line}\n" for line in lines), message
