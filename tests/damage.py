"""What may happen to a file."""

import pathlib


def flip_bit(path: pathlib.Path, place=None):
    """Flips the lowest bit of a file's byte, by default of the middle one."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if place is None else place] ^= 1
    path.write_bytes(content)
