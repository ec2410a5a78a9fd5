"""How many processors there are for this process."""

import os


def count():
    """Returns how many processors this process may run on.

    A scheduler may have given it fewer than the machine has.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
