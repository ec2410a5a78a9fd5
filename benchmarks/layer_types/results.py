"""What was measured, looked up by size, and exponents fitted to it."""

import math

from benchmarks.harness.report import quartiles, ratio
from benchmarks.layer_types.layers import FULL
from benchmarks.layer_types.measure import LayerSize

# Less is lost in what else happens in a process.
_LEAST_BYTES = 2**20


def fitted_exponent(points):
    """Returns e of y = c x^e, by least squares of the logarithms.

    Args:
        points: list of (x, y), numbers above 0.

    Returns:
        float; None where there are not two x.
    """
    if len({x for x, _ in points}) < 2:
        return None
    xs, ys = ([math.log(each) for each in row] for row in zip(*points))
    middle, height = sum(xs) / len(xs), sum(ys) / len(ys)
    slopes = sum((x - middle) * (y - height) for x, y in zip(xs, ys))
    return slopes / sum((x - middle) ** 2 for x in xs)


class Results:
    """What was measured of the chosen layer types, looked up by size.

    Attributes:
        chosen: dict of name to LayerType.
        sizes: those that were measured.
        disturbed: visits in which other programs took much of the machine.
        visits: of all sizes.

    Args:
        chosen: dict of name to LayerType.
        sizes: list of LayerSize that the run is about.
        cells: ResultStore.
        fit_from: exponents of n are of lengths from here on; that of full
            self-attention from twice as far, where n²·d outweighs n·d².
    """

    def __init__(self, chosen, sizes, cells, fit_from):
        self.chosen = chosen
        self.sizes = [size for size in sizes if size in cells.sizes]
        self._cells = cells.sizes
        noise = [cells.noise[size] for size in self.sizes]
        self.disturbed = sum(disturbed for disturbed, _ in noise)
        self.visits = sum(visits for _, visits in noise)
        self._fit_from = fit_from

    def measured(self, name, size):
        """Returns the Measured of a layer at a size, or None."""
        return self._cells.get(size, {}).get(name)

    def seconds(self, name, size):
        """Returns the median of a call's seconds, or None."""
        found = self.measured(name, size)
        return found and quartiles(found.seconds).median

    def bytes(self, name, size):
        """Returns the bytes of a call, or None where they say nothing."""
        found = self.measured(name, size)
        if found is None or (found.bytes or 0) < _LEAST_BYTES:
            return None
        return found.bytes

    def beside_full(self, name, size):
        """Returns the Quartiles of its seconds / full attention's, or None."""
        full, one = self.measured(FULL, size), self.measured(name, size)
        return full and one and ratio(one.seconds, full.seconds)

    def widths(self):
        """Returns every d that was measured, in order."""
        return sorted({size.width for size in self.sizes})

    def shared_length(self):
        """Returns the longest n at which all was measured at every d.

        That is every layer forward and backward; None where there is none.
        """
        return max(
            (
                size.length
                for size in self.sizes
                if all(
                    self.measured(name, LayerSize(width, size.length, True))
                    for name in self.chosen
                    for width in self.widths()
                )
            ),
            default=None,
        )

    def line(self, value, name, both, width=None, length=None):
        """Returns points of a layer: over n at a width, or over d at an n.

        Args:
            value: `seconds` or `bytes`, or a function like them.
            name: of the layer type.
            both: forward and backward, or forward alone.
            width: d; None for all, of one length.
            length: n; None for all, of one width.

        Returns:
            List of (n or d, value).
        """
        return [
            (size.length if length is None else size.width, found)
            for size in self.sizes
            if size.both == both
            and width in (None, size.width)
            and length in (None, size.length)
            and (found := value(name, size))
        ]

    def exponent_of_length(self, value, name, both, width):
        """Returns the exponent of n and the lengths it is of, or None."""
        least = self._fit_from * (2 if self.chosen[name].square else 1)
        line = self.line(value, name, both, width=width)
        return _fit([point for point in line if point[0] >= least])

    def exponent_of_width(self, value, name, both, length):
        """Returns the exponent of d and the widths it is of, or None."""
        return _fit(self.line(value, name, both, length=length))

    def products(self, name, size):
        """Returns the FLOPs of a layer that was measured, or None."""
        if self.measured(name, size) is None:
            return None
        return self.chosen[name].flops(size.length, size.width)


def _fit(points):
    exponent = fitted_exponent(points)
    if exponent is None:
        return None
    xs = [x for x, _ in points]
    return exponent, min(xs), max(xs)
