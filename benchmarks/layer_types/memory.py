"""How much memory a call of a layer takes, each in a process of its own."""

import concurrent.futures
import multiprocessing

from benchmarks.harness.worker import current_memory, peak_memory
from export.errors import InputError

# So long is the call before, which makes what TensorFlow makes once.
_FIRST_LENGTH = 64
_IMPORTS = "benchmarks.layer_types.layers"


class MemoryProbe:
    """Starts a new process for each call; use it in a `with` block.

    TensorFlow keeps freed memory for itself, so in a process that has made
    larger calls a call seems to take none. Processes come from one that has
    imported TensorFlow and not used it, in some tenths of a second each.
    """

    def __enter__(self):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([_IMPORTS])
        self._pool = concurrent.futures.ProcessPoolExecutor(
            max_workers=1, mp_context=context, max_tasks_per_child=1
        )
        return self

    def __exit__(self, *_):
        self._pool.shutdown(cancel_futures=True)

    def taken_bytes(self, layer, size):
        """Returns what a call takes at most, beside weights and input.

        Args:
            layer: LayerType.
            size: LayerSize.

        Returns:
            Bytes; None where the system cannot say.

        Raises:
            InputError: the process ended.
        """
        try:
            return self._pool.submit(_taken_bytes, layer, size).result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise InputError(
                f"The process that ran {layer.title} at n = {size.length}, "
                f"d = {size.width} was ended, for want of memory as a rule; "
                "set --memory_gib to less, and run the same command again."
            ) from error


def _taken_bytes(layer, size):
    work = layer.make(None)
    work.run(size._replace(length=min(_FIRST_LENGTH, size.length)))
    work.prepare(size)
    before = current_memory()
    if before is None:
        return None
    work.run(size)
    return max(0, peak_memory() - before)
