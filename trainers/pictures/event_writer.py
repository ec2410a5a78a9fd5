"""Files of events, which TensorBoard shows."""

import contextlib

import tensorflow as tf

from export.errors import InputError


class EventWriter:
    """Writes what tf.summary is told inside its blocks.

    Args:
        log_dir: pathlib.Path, TensorBoard's folder.
        run: name of the run that TensorBoard shows it as.

    Raises:
        InputError: the files cannot be written, here or in a block.
    """

    def __init__(self, log_dir, run):
        self._log_dir = log_dir
        with self._clear_errors():
            self._writer = tf.summary.create_file_writer(str(log_dir / run))

    @contextlib.contextmanager
    def at(self, step):
        """A block whose events are of a step, and on disk when it ends.

        The last event should be a scalar: that a large one found no room,
        TensorFlow tells only when it writes a small one.
        """
        with self._clear_errors(), self._writer.as_default(step):
            yield

    @contextlib.contextmanager
    def _clear_errors(self):
        try:
            yield
        except tf.errors.OpError as error:
            # Before and behind it stand names of TensorFlow's operations.
            reason = error.message.splitlines()[0].rpartition("}} ")[2]
            reason = reason.partition(" [Op:")[0]
            raise InputError(
                f"Cannot write {self._log_dir}: {reason}. Make room, then run "
                "the same command again."
            ) from error
