"""Whole numbers that keep the sum of their row."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from export.attention_views.html import ONE, rounded_rows


@given(st.lists(st.floats(0, 1), min_size=1, max_size=120).filter(sum))
def test_rows_keep_their_sum_and_every_number_is_near(weights):
    exact = np.array(weights) / np.sum(weights)
    # As the model gives them.
    found = rounded_rows(exact.astype(np.float32)[None])
    assert found.dtype == np.uint16
    assert found.sum() == ONE
    assert (np.abs(found[0] - ONE * exact) <= 1.01).all()
    assert (found[0][exact == 0] == 0).all()
