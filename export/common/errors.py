"""InputError, for everything that the user can correct."""


class InputError(Exception):
    """Input from outside (a flag, file, text or archive) is wrong.

    The message is one sentence: what is wrong, what was expected and what to
    do. Commands print it without a traceback and exit with 2.
    """
