"""Which of a server's models is asked."""

import typing
import urllib.parse

# Bytes; far more than the alignments of a batch take.
LONGEST_ANSWER = 1 << 30


class ServedModel(typing.NamedTuple):
    """A model as a client names it.

    Attributes:
        name: as the server's configuration has it.
        version: number, or None.
        label: of a version, or None; without both the newest answers.
    """

    name: str
    version: int | None = None
    label: str | None = None

    def path(self):
        """Returns the part of a REST address that names it."""
        path = f"/v1/models/{urllib.parse.quote(self.name, safe='')}"
        if self.version is not None:
            return f"{path}/versions/{self.version}"
        if self.label is not None:
            return f"{path}/labels/{urllib.parse.quote(self.label, safe='')}"
        return path

    def __str__(self):
        if self.version is not None:
            return f"version {self.version} of {self.name}"
        if self.label is not None:
            return f"the version {self.label} of {self.name}"
        return self.name
