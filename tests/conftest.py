"""What all tests share."""

import os
import signal

import pytest
from hypothesis import settings

from tests import processes
from tests.distribution import in_order

# Before the first import of TensorFlow: only errors, and no GPU is claimed
# whole by a test run.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")

# Many small models are compiled once and run once.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

# A shell has what it runs in the background ignore Ctrl-C, and so would all
# that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every run, and no absolute times: a slow machine must
# not fail a test.
settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")


@pytest.fixture(scope="session", autouse=True)
def _process_servers():
    """Those of `tests.processes` end with the session."""
    yield
    processes.close_servers()


def pytest_addoption(parser):
    parser.addoption(
        "--slow", action="store_true", help="also the tests that take minutes"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from tests.scheduler import Scheduler

    return Scheduler(config, log)


def pytest_collection_modifyitems(config, items):
    items[:] = in_order(items)
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="slow: run with --slow")
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(skip)
