"""Reads weights without Keras, from either kind of file."""

import h5py
import numpy as np


def arrays(path) -> dict[str, np.ndarray]:
    """{name: array} of all that is in a model.weights.h5."""
    found = {}

    def keep(name, item):
        if isinstance(item, h5py.Dataset):
            found[name] = item[()]

    with h5py.File(path / "model.weights.h5") as file:
        file.visititems(keep)
    return found


def of_the_model(path) -> list[np.ndarray]:
    """The model's own weights of a model directory, in `in_order`."""
    return in_order(
        array
        for name, array in arrays(path).items()
        if not name.startswith("optimizer/")
    )


def of_a_checkpoint(path) -> dict[str, np.ndarray]:
    """{name: array} of a checkpoint's weights."""
    with np.load(path) as file:
        return {n: file[n] for n in file.files if n.startswith("weight/")}


def in_order(weights) -> list[np.ndarray]:
    """By shape and first number: files name the weights differently."""
    return sorted(weights, key=lambda each: (each.shape, float(each.flat[0])))
