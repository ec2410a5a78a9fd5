"""Which of the systems a run is about, by their names."""

import importlib
import importlib.util

from export.command import InputError


class Peer:
    """What a system's `module`, `maker` and `packages` say of it."""

    def make(self, job):
        """Returns what runs it."""
        module = importlib.import_module(f"benchmarks.peers.{self.module}")
        return getattr(module, self.maker)(job)

    def missing_package(self):
        """Returns the name of a package that it lacks, or None."""
        for package in self.packages:
            if importlib.util.find_spec(package) is None:
                return package
        return None


def of_backend(tables, backend):
    """Returns a backend's systems.

    Args:
        tables: dict of backend to its systems.
        backend: of Keras.

    Raises:
        InputError: nothing is measured on such a backend.
    """
    if backend not in tables:
        raise InputError(
            f"KERAS_BACKEND={backend} is not measured; set it to "
            f"{' or '.join(tables)}."
        )
    return tables[backend]


def choose_among(known, names, backend):
    """Returns the systems to time, in the order of the names.

    Args:
        known: dict of name to system.
        names: of systems; none for all whose packages are installed.
        backend: of Keras, for messages.

    Returns:
        Dict of name to system.

    Raises:
        InputError: an unknown name, or a package is missing.
    """
    names = names or [
        name for name, each in known.items() if each.missing_package() is None
    ]
    for name in names:
        if name not in known:
            raise InputError(
                f"There is no system {name!r} on {backend}; there are: "
                f"{', '.join(known)}."
            )
        if missing := known[name].missing_package():
            raise InputError(
                f"System {name} needs the package {missing}; install "
                "requirements-bench.txt, or leave it out of --systems."
            )
    return {name: known[name] for name in names}
