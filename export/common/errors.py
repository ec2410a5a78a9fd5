"""The one exception that means: the user can put this right."""


class InputError(Exception):
    """Something given from outside (a flag, file, text, archive) is wrong.

    The message is one sentence that says what was wrong, what was expected
    and what to do. Commands print it as it is, without a traceback, and exit
    with a code other than 0.
    """
