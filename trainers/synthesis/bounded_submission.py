"""Some jobs begun at any time, and their ends as they come."""

import itertools


def submit_bounded(jobs, begin, ended, most, begun):
    """Keeps jobs begun ahead, so that no worker waits for one.

    Args:
        jobs: iterator of Job.
        begin: function of a job that returns what stands for its work.
        ended: function of a list of these, that waits until some have ended
            and returns them.
        most: function that returns how many may be begun at a time.
        begun: dict that holds what stands for work, with its job, until the
            next is asked for.

    Yields:
        (Job, what stands for its work), as they end.
    """
    while True:
        for job in itertools.islice(jobs, max(most() - len(begun), 0)):
            begun[begin(job)] = job
        if not begun:
            return
        for work in ended([*begun]):
            yield begun[work], work
            del begun[work]
