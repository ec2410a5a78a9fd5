"""How TensorFlow Serving names versions."""


def is_version(name):
    """Returns whether TensorFlow Serving takes a folder's name for one."""
    return name.isascii() and name.isdecimal()
