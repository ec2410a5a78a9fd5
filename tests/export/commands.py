"""Commands on lines, as processes of their own."""

import pathlib

from tests import processes


def alone(module, model, texts, *flags):
    """As `run`, but as a user does, imports and all."""
    return _run(module, model, texts, flags, imported=False)


def start(module, model, *flags, **streams):
    """Starts `python -m module --model=model ...`; see `processes.start`."""
    return processes.start(
        {"module": module},
        [f"--model={model}", *flags],
        environment=environment(),
        imported=not _is_export(model),
        **streams,
    )


def run(module, model, texts, *flags):
    """Returns (exit code, lines of stdout, lines of stderr)."""
    return _run(module, model, texts, flags, imported=not _is_export(model))


def _run(module, model, texts, flags, imported):
    source = texts if isinstance(texts, bytes) else _lines(texts)
    done = processes.run(
        {"module": module},
        [f"--model={model}", *flags],
        environment=environment(),
        source=source,
        imported=imported,
    )
    assert done.out == "" or done.out.endswith("\n")
    return done.code, done.out.split("\n")[:-1], done.err.splitlines()


def environment():
    return processes.user_environment() | {"TF_CPP_MIN_LOG_LEVEL": "3"}


def _is_export(model):
    """An export is refused where Keras is imported with TensorFlow."""
    return any(
        any(pathlib.Path(model).glob(name))
        for name in ("saved_model.pb", "*/saved_model.pb")
    )


def _lines(texts):
    return "".join(f"{text}\n" for text in texts).encode()
