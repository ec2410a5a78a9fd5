"""A work with its models' files, for machines that share no disk."""

import atexit
import dataclasses
import pathlib
import shutil
import tempfile

from trainers.synthesis.models import FILES
from trainers.synthesis.work import Work


@dataclasses.dataclass(frozen=True)
class Shipment:
    """A work, and the contents of its models' files.

    Attributes:
        work: Work.
        contents: of each model, of each of `FILES`, bytes.
    """

    work: Work
    contents: tuple[tuple[bytes, ...], ...]

    @classmethod
    def of(cls, work):
        """Returns the Shipment of a work whose models lie on this machine.

        Args:
            work: Work.
        """
        return cls(
            work,
            tuple(
                tuple(
                    pathlib.Path(model.path, name).read_bytes()
                    for name in FILES
                )
                for model in work.models
            ),
        )

    def unpack(self, folder):
        """Writes the models into a folder.

        Args:
            folder: pathlib.Path.

        Returns:
            Work with the models that lie there.
        """
        models = []
        for place, (model, contents) in enumerate(
            zip(self.work.models, self.contents)
        ):
            path = folder / f"{place}"
            path.mkdir()
            for name, content in zip(FILES, contents):
                (path / name).write_bytes(content)
            models.append(dataclasses.replace(model, path=str(path)))
        return dataclasses.replace(self.work, models=tuple(models))


_UNPACKED = {}


def unpacked(work, fetch):
    """Returns a work with models on this machine, once in a process.

    Args:
        work: Work as it was on the other machine.
        fetch: function that returns its Shipment.
    """
    if work not in _UNPACKED:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="synthesis-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _UNPACKED[work] = fetch().unpack(folder)
    return _UNPACKED[work]
