import numpy as np
import pytest
from keras import ops

from keras_transformer.kernels import projections

BLOCK = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
# -0.0, infinities and NaN are bits like others.
BLOCK[0, 0, :4] = [-0.0, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(
    "split", [projections.split_heads, projections.split_few]
)
def test_each_head_has_its_own_columns(split, dtype):
    block = ops.cast(BLOCK, dtype)
    found = split(block, 4)
    expected = ops.convert_to_numpy(ops.cast(block, "float32"))
    expected = expected.reshape(2, 3, 4, 2).transpose(0, 2, 1, 3)
    assert tuple(found.shape) == (2, 4, 3, 2)
    np.testing.assert_array_equal(
        ops.convert_to_numpy(ops.cast(found, "float32")), expected
    )


@pytest.mark.parametrize(
    "split, join",
    [
        (projections.split_heads, projections.join_heads),
        (projections.split_few, projections.join_few),
    ],
)
def test_joined_again_they_are_the_block(split, join):
    found = ops.convert_to_numpy(join(split(BLOCK, 4)))
    np.testing.assert_array_equal(found, BLOCK)
    assert np.signbit(found[0, 0, 0])
