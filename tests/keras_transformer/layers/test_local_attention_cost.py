"""What a window saves of one layer of base width, forward and backward."""

import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import pytest

import keras_transformer as kt
from tests.keras_transformer import helpers

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(helpers.JITTED, reason="of TensorFlow on a CPU"),
]
WINDOW = 64


def work(window, length):
    """A function that goes forward and backward through the layer."""
    import tensorflow as tf

    layer = kt.MultiHeadAttention(8, 64, attention_window=window)
    states = np.random.default_rng(1).normal(size=(1, length, 512))
    states = tf.constant(states.astype("float32"))
    layer.build(states.shape)
    variables = [weight.value for weight in layer.trainable_variables]

    @tf.function
    def run():
        with tf.GradientTape() as tape:
            tape.watch(states)
            loss = tf.reduce_sum(tf.square(layer(states, training=True)))
        return tape.gradient(loss, [states, *variables])

    return run


@pytest.mark.parametrize("length, least", [(4096, 3), (8192, 6)])
def test_time(length, least):
    """The processors', so that other programs do not count."""
    runs = {window: work(window, length) for window in (0, WINDOW)}
    times = {window: [] for window in runs}
    for _ in range(4):
        for window, run in runs.items():
            begin = time.process_time()
            run()
            times[window].append(time.process_time() - begin)
    # Without the first round, which makes the graphs.
    full, near = (statistics.median(taken[1:]) for taken in times.values())
    assert full / near >= least, times


_OF_MEMORY = f"""
import re, sys
from {__name__} import work

def most(name):
    status = open("/proc/self/status").read()
    return int(re.search(name + r":\\s*(\\d+) kB", status)[1])

window, length = map(int, sys.argv[1:])
work(window, 256)()
before = most("VmRSS")
work(window, length)()
print("taken", most("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory():
    taken = []
    for window in (0, WINDOW):
        done = subprocess.run(
            [sys.executable, "-c", _OF_MEMORY, str(window), "8192"],
            cwd=pathlib.Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
        )
        taken.append(int(done.stdout.split("taken")[1]))
    assert taken[1] <= taken[0] / 10, taken
