"""Which of the systems a run is about, by their names."""

import dataclasses
import importlib.util
import pkgutil

from export.errors import InputError


@dataclasses.dataclass(frozen=True)
class System:
    """Where a system is made and what it needs.

    Attributes:
        maker: "module:function" in benchmarks.peers, a function of a job; it
            returns a peer: what runs the system, with a `note` of what it
            runs on, `parameters` if it is a model, and `framework` if that
            can say how much of a GPU's memory it takes.
        packages: that must be installed beside the Keras backend, with
            spaces between.
        keras_backend: it runs on, whether or not it uses Keras; None for
            that of the run.
    """

    maker: str
    packages: str = ""
    keras_backend: str | None = None

    def make(self, job):
        """Returns the peer."""
        return pkgutil.resolve_name(f"benchmarks.peers.{self.maker}")(job)

    def missing_package(self):
        """Returns the name of a package that it lacks, or None."""
        for package in (self.keras_backend, *self.packages.split()):
            if importlib.util.find_spec(package) is None:
                return package
        return None


def select_systems(tables, backend, names):
    """Returns the systems to time, in the order of the names.

    Args:
        tables: dict of Keras backend to a dict of name to System.
        backend: of Keras.
        names: of systems; none for all whose packages are installed.

    Returns:
        Dict of name to System, whose `keras_backend` is set.

    Raises:
        InputError: nothing is measured on such a backend, an unknown name,
            or a package is missing.
    """
    if backend not in tables:
        raise InputError(
            f"KERAS_BACKEND={backend} is not measured; set it to "
            f"{' or '.join(tables)}."
        )
    known = {
        name: dataclasses.replace(
            each, keras_backend=each.keras_backend or backend
        )
        for name, each in tables[backend].items()
    }
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
