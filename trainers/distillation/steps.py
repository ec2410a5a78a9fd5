"""Steps one after the other; those that are done are passed over."""

import pathlib
import typing
from collections.abc import Callable


class Step(typing.NamedTuple):
    """One step of a distillation.

    Attributes:
        title: what is done, such as "Training the student".
        order: what decides its outcome, list of str.
        proof: pathlib.Path of what is there when it is done.
        run: function without arguments, that returns an exit code.
    """

    title: str
    order: list
    proof: pathlib.Path
    run: Callable[[], int]


def subcommand(title, module, arguments, proof, run):
    """Returns a Step that is another command.

    Args:
        title: as of Step.
        module: such as "trainers.wmt".
        arguments: its flags, list of str.
        proof: as of Step.
        run: function of a module and its flags that returns the exit code,
            such as `processes.run_subcommand`.
    """
    order = [module, *arguments]
    return Step(title, order, proof, lambda: run(module, arguments))


def go_through(steps, journal):
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
        if journal.is_done(number, step.order) and step.proof.exists():
            print(f"{head}: done before.", flush=True)
            continue
        print(f"{head}.", flush=True)
        journal.begin(number)
        code = step.run()
        if code > 128:
            print(
                f"Interrupted in step {number + 1}; the same command goes on."
            )
        elif code:
            print(f"Step {number + 1} ended with exit code {code}.")
        if code:
            return code
        journal.note(step.order)
    return 0
