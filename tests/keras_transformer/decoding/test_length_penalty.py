import numpy as np
import pytest

from keras_transformer.decoding.rules import length_penalty
from tests.keras_transformer import helpers, reference


@pytest.mark.parametrize("kind", ["gnmt", "power"])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.6, 1.0, 2.0])
def test_equals_the_formula(kind, alpha):
    lengths = np.array([1, 2, 7, 50, 1000], "int32")
    actual = helpers.to_numpy(length_penalty(lengths, alpha, kind))
    expected = [reference.length_penalty(n, alpha, kind) for n in lengths]
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_by_hand():
    """(5 + 7) / 6 = 2; 2^0.6 = 1.515717."""
    assert float(length_penalty(7, 0.6)) == pytest.approx(1.515717, rel=1e-6)
    assert float(length_penalty(7, 1.0, "power")) == 7.0


def test_refuses_another_kind():
    with pytest.raises(ValueError, match="gnmt or power"):
        length_penalty(3, 0.6, "wu")
