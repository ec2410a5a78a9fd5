"""Many callers at once, and what they noticed."""

import dataclasses
import pathlib
import statistics
import threading
import time


@dataclasses.dataclass(frozen=True)
class Load:
    """What so many callers were given in so much time.

    Attributes:
        answers: how many there were.
        wrong: of those, how many were not as when asked for alone.
        errors: messages of the requests that failed.
        seconds: that it took.
        cpu_seconds: of all cores, that this process used meanwhile.
        median: seconds that a caller waited, half of the time at most.
        slowest: seconds, 99 of 100 times at most.
        megabytes: of memory at the end, beyond those after the first part.
    """

    answers: int
    wrong: int
    errors: tuple[str, ...]
    seconds: float
    cpu_seconds: float
    median: float
    slowest: float
    megabytes: float

    @property
    def rate(self):
        """Answers a second."""
        return self.answers / self.seconds

    @property
    def cpu(self):
        """Processor seconds of an answer."""
        return self.cpu_seconds / max(self.answers, 1)


def measure_load(ask, questions, is_right, callers, seconds):
    """Lets callers ask one question after the other.

    Args:
        ask: function of a question, called from many threads.
        questions: list.
        is_right: function of a question's number and its answer.
        callers: how many threads ask.
        seconds: how long; the first quarter is not counted.

    Returns:
        Load.
    """
    count = len(questions)
    started = time.monotonic()
    counted, end = started + seconds / 4, started + seconds
    waits, wrong, errors = [], [], []

    def call(caller):
        place = caller
        while (asked := time.monotonic()) < end:
            try:
                answer = ask(questions[place % count])
            except Exception as error:
                errors.append(str(error))
                return
            if not is_right(place % count, answer):
                wrong.append(place % count)
            if asked >= counted:
                waits.append(time.monotonic() - asked)
            place += callers + 1

    threads = [threading.Thread(target=call, args=(n,)) for n in range(callers)]
    for thread in threads:
        thread.start()
    time.sleep(max(counted - time.monotonic(), 0))
    before, cpu_before = megabytes(), time.process_time()
    for thread in threads:
        thread.join()
    took = time.monotonic() - counted
    return Load(
        answers=len(waits),
        wrong=len(wrong),
        errors=tuple(errors),
        seconds=took,
        cpu_seconds=time.process_time() - cpu_before,
        median=statistics.median(waits) if waits else took,
        slowest=sorted(waits)[len(waits) * 99 // 100] if waits else took,
        megabytes=megabytes() - before,
    )


def megabytes():
    """Returns the memory of this process."""
    text = pathlib.Path("/proc/self/statm").read_text(encoding="ascii")
    return int(text.split()[1]) * 4096 / 1e6
