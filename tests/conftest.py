"""What all tests share."""

import gc
import os
import signal

import pytest
from hypothesis import settings

# Before the first import of TensorFlow: no log, and no GPU is claimed
# whole by a test run.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# A process forked off has one thread of those that OpenBLAS started.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")

# Many small models are compiled once and run once.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

# Tracing makes many objects that stay: a tenth of the time went into looking
# through them.
gc.set_threshold(100_000, 20, 20)

# A shell has what it runs in the background ignore Ctrl-C, and so would all
# that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every run, and no absolute times: a slow machine must
# not fail a test.
settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")


def pytest_addoption(parser):
    parser.addoption(
        "--slow", action="store_true", help="also the tests that take minutes"
    )


def pytest_collection_finish():
    # Keras' `quantize` collects garbage after each layer: not in all modules.
    gc.freeze()


def pytest_collection_modifyitems(config, items):
    if config.getoption("--slow"):
        return
    skip = pytest.mark.skip(reason="slow: run with --slow")
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(skip)
