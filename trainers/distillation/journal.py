"""Runs steps in order and records finished ones in `distill.json`.

If a step is repeated, all later steps are repeated.
"""

import json
import pathlib
import typing
from collections.abc import Callable

from export.common.errors import InputError
from export.common.storage import (
    explain_read_errors,
    remove_temporary_files,
    write_json,
)
from trainers.data.corpus import describe_fingerprint_change
from trainers.synthesis.job import validate_output_folder

JOURNAL_FILE = "distill.json"
_FORMAT = 1


class Step(typing.NamedTuple):
    """A step of a distillation.

    `command` is a module and its flags, and identifies the step; `output`
    exists once it is finished; `function` is called instead of the command.
    """

    title: str
    command: list[str]
    output: pathlib.Path
    function: Callable[[], None] | None = None


def run_steps(steps, folder, facts, run_command):
    """Runs the unfinished steps; returns 0 or a failed command's exit code.

    `facts` are those of `read_finished_commands`. `run_command` is a function
    of a module and its flags that returns the exit code, such as
    `processes.run_subcommand`.
    """
    done = read_finished_commands(folder, facts)
    remove_temporary_files(folder, JOURNAL_FILE)
    for number, step in enumerate(steps):
        head = f"{step.title}, step {number + 1} of {len(steps)}"
        if done[number : number + 1] == [step.command] and step.output.exists():
            print(f"{head}: finished before.", flush=True)
            continue
        print(f"{head}.", flush=True)
        done = done[:number]
        _write(folder, facts, done)
        code = 0
        if step.function:
            step.function()
        else:
            module, *arguments = step.command
            code = run_command(module, arguments)
        if code:
            reason = f"failed with exit code {code}."
            if code > 128:
                reason = "was interrupted; the same command resumes."
            print(f"Step {number + 1} {reason}")
            return code
        done.append(step.command)
        _write(folder, facts, done)
    return 0


def read_finished_commands(folder, facts):
    """Returns the commands of the finished steps.

    `facts` is a JSON dict of all settings that change the student. Raises
    InputError if the folder holds other files, or a distillation with
    different facts.
    """
    validate_output_folder(folder, JOURNAL_FILE, "distillation.lock")
    path = folder / JOURNAL_FILE
    if not path.exists():
        return []
    try:
        with explain_read_errors(path):
            content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            raise ValueError("it is of another version of this program")
        before, done = dict(content["facts"]), list(content["done"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(
            f"{path} is not the journal of a distillation ({error!r}); give "
            "another --output_dir."
        ) from error
    # Before a step is finished, different facts do no harm.
    changed = [name for name in facts if before.get(name) != facts[name]]
    if done and changed:
        name = changed[0]
        old, new = before.get(name), facts[name]
        change = f"{name} {old}, not {new}"
        if name == "fingerprint":
            what = describe_fingerprint_change(str(old), new)
            change = f"another {facts['dataset']}: {what}"
        raise InputError(
            f"{folder} was begun with {change}; restore it and give the same "
            "flags to resume, or give another --output_dir."
        )
    return done


def _write(folder, facts, done):
    content = {"format": _FORMAT, "facts": facts, "done": done}
    write_json(folder / JOURNAL_FILE, content)
