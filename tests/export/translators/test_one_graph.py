"""A function as one graph, which threads share."""

import concurrent.futures
import time

import numpy as np
import tensorflow as tf

from export.translators.graphs import one_graph

ROWS = tf.TensorSpec([None, None], tf.float32)
SHAPES = [(1, 2), (3, 4), (5, 6)]


def test_it_is_traced_once_for_every_shape_of_every_thread(caplog):
    traced = []

    def doubled(rows, addend):
        traced.append(rows.shape.as_list())
        time.sleep(0.05)
        return {"sum": 2 * rows + addend[0]}

    # From five tracings in ten calls on TensorFlow would warn.
    for _ in range(5):
        graph = one_graph(doubled, ROWS, (ROWS,))
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            found = threads.map(
                graph,
                [np.ones(shape, np.float32) for shape in SHAPES],
                [(tf.ones(shape),) for shape in SHAPES],
            )
        for shape, each in zip(SHAPES, found, strict=True):
            np.testing.assert_array_equal(each["sum"], np.full(shape, 3.0))
    assert traced == [[None, None]] * 5
    assert "retracing" not in caplog.text
