"""What tests run in another process: absl's flags are one list for each."""

import contextlib
import io
import pathlib

from absl import flags
from absl.testing import flagsaver

from export.common.errors import InputError


def run(*arguments):
    """Runs the command's main.

    Returns:
        What it printed, and the message of its InputError or None.
    """
    from export import saved_model

    printed = io.StringIO()
    with flagsaver.flagsaver(), contextlib.redirect_stdout(printed):
        flags.FLAGS(["saved_model", *arguments])
        try:
            saved_model.main([])
        except InputError as error:
            return printed.getvalue(), str(error)
    return printed.getvalue(), None


def run_interrupted(*arguments):
    """The same, but Ctrl-C comes when half is written."""
    from export import saved_model

    real = saved_model.tf.saved_model.save

    def interrupted(servable, path, **rest):
        pathlib.Path(path, "variables").mkdir(parents=True)
        pathlib.Path(path, "variables", "variables.index").write_bytes(b"half")
        raise KeyboardInterrupt

    saved_model.tf.saved_model.save = interrupted
    try:
        return run(*arguments)
    except KeyboardInterrupt as error:
        return "", repr(error)
    finally:
        saved_model.tf.saved_model.save = real


def run_failing_the_check(*arguments):
    """The same, but the export's warm-up requests are damaged."""
    from export import saved_model

    real = saved_model.write_warm_up
    saved_model.write_warm_up = lambda path, _: path.write_bytes(b"bad" * 9)
    try:
        return run(*arguments)
    finally:
        saved_model.write_warm_up = real
