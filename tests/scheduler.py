"""pytest-xdist's part of `tests.distribution`."""

from xdist.scheduler import LoadScopeScheduling

from tests.distribution import group_of


class Scheduler(LoadScopeScheduling):
    """Gives the next group to whichever worker is free."""

    def __init__(self, config, log=None):
        super().__init__(config, log)
        # Not what has the most tests first.
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid):
        return group_of(nodeid)
