"""Whether something else uses the machine while we measure."""

import os
import pathlib

# Fields of /proc/stat, ticks since boot: user, nice, system, irq, softirq and
# steal, which is what a virtual machine's host took for others.
_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)
_NOISE = 0.08


class Watch:
    """Measures again what other programs disturbed.

    Attributes:
        visits: measured so far.
        disturbed: of those, in which others took more than 8 % of all cores
            at every try.

    Args:
        tries: how often a visit is measured, at most.
    """

    def __init__(self, tries):
        self.visits = self.disturbed = 0
        self._tries = tries

    def least(self, measure):
        """Measures until nothing disturbs or there is no try left.

        Args:
            measure: function without arguments; returns a Visit.

        Returns:
            The Visit that nothing disturbed; failing that, the shortest.
        """
        made = []
        for _ in range(self._tries):
            others = -busy_seconds()
            one = measure()
            others += busy_seconds() - one.cpu_seconds * one.calls
            made.append(one)
            passed = one.seconds * one.calls * (os.cpu_count() or 1)
            disturbed = others > _NOISE * passed
            if not disturbed:
                break
        self.visits += 1
        self.disturbed += disturbed
        return min(made) if disturbed else one


def busy_seconds():
    """Returns the processor seconds used since boot; 0 where not known."""
    try:
        text = pathlib.Path("/proc/stat").read_text(encoding="ascii")
    except OSError:
        return 0.0
    ticks = [int(field) for field in text.splitlines()[0].split()[1:]]
    busy = sum(ticks[field] for field in _BUSY_FIELDS)
    return busy / os.sysconf("SC_CLK_TCK")
