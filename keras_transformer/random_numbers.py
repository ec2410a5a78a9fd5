"""Random numbers that are a function of their place.

Keras draws a whole tensor from one seed, so that what a sentence gets
depends on where it stands in which batch. Here each number is a hash of its
own coordinates.
"""

from keras import ops


def uniform(*coordinates):
    """Returns numbers in [0, 1), each a hash of its coordinates.

    Args:
        *coordinates: int32, broadcastable to one another.

    Returns:
        float32 of the shape they broadcast to, multiples of 2 ** -24.
    """
    mixed = 0
    for each in coordinates:
        mixed = _mix(ops.cast(each, "uint32") + mixed)
    return ops.cast(_shifted(mixed, 8), "float32") * 2.0**-24


def _mix(bits):
    """Scatters 32 bits: two rounds of xor, shift and multiply.

    The constants are Chris Wellons' "lowbias32" (2018, public domain), found
    by search for the least bias.
    """
    bits = ops.bitwise_xor(bits, _shifted(bits, 16))
    bits = bits * ops.convert_to_tensor(0x7FEB352D, "uint32")
    bits = ops.bitwise_xor(bits, _shifted(bits, 15))
    bits = bits * ops.convert_to_tensor(0x846CA68B, "uint32")
    return ops.bitwise_xor(bits, _shifted(bits, 16))


def _shifted(bits, by):
    return ops.right_shift(bits, ops.convert_to_tensor(by, "uint32"))
