"""Steps one after the other; those that are done are passed over."""

import pathlib
import typing
from collections.abc import Callable


class Step(typing.NamedTuple):
    """One step of a distillation.

    Attributes:
        title: what is done, such as "Training the student".
        command: what decides its outcome, list of str.
        output: pathlib.Path of what is there when it is done.
        run: function without arguments, that returns an exit code.
    """

    title: str
    command: list
    output: pathlib.Path
    run: Callable[[], int]


def subcommand(title, module, arguments, output, run):
    """Returns a Step that is another command.

    Args:
        title: as of Step.
        module: such as "trainers.wmt".
        arguments: its flags, list of str.
        output: as of Step.
        run: function of a module and its flags that returns the exit code,
            such as `processes.run_subcommand`.
    """
    command = [module, *arguments]
    return Step(title, command, output, lambda: run(module, arguments))


def run_steps(steps, journal):
    """Runs the steps that are not done yet.

    Args:
        steps: list of Step.
        journal: Journal.

    Returns:
        0, or the exit code of the step that did not end well.

    Raises:
        InputError: of a step, or the journal cannot be written.
    """
    for number, step in enumerate(steps):
        head = f"{step.title}, step {number + 1} of {len(steps)}"
        if journal.is_done(number, step.command) and step.output.exists():
            print(f"{head}: done before.", flush=True)
            continue
        print(f"{head}.", flush=True)
        journal.restart_from(number)
        code = step.run()
        if code > 128:
            print(
                f"Interrupted in step {number + 1}; the same command goes on."
            )
        elif code:
            print(f"Step {number + 1} ended with exit code {code}.")
        if code:
            return code
        journal.mark_done(step.command)
    return 0
