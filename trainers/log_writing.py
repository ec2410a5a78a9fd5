"""What writing TensorBoard's files has in common."""

import contextlib

import tensorflow as tf

from export.command import InputError


@contextlib.contextmanager
def log_writing(log_dir):
    """A block in which a full disk is a clear error.

    Args:
        log_dir: where TensorBoard's files go.

    Raises:
        InputError: they cannot be written.
    """
    try:
        yield
    except tf.errors.OpError as error:
        reason = " ".join(error.message.split())
        raise InputError(
            f"Cannot write {log_dir}: {reason}. Make room, then run the same "
            "command again."
        ) from error
