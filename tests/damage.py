"""What may happen to a file."""

import pathlib


def flip_bit(path: pathlib.Path, place=None):
    """Turns a file's bit: the lowest one of a byte.

    Args:
        path: of the file, which is written anew.
        place: index of the byte; that in the middle by default.
    """
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if place is None else place] ^= 1
    path.write_bytes(content)
