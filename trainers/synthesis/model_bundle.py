"""A work with its models' files, for machines that share no disk."""

import dataclasses
import pathlib
import tempfile

from trainers.synthesis.models import FILES
from trainers.synthesis.translation_job import TranslationJob


@dataclasses.dataclass(frozen=True)
class ModelBundle:
    """A work, and the contents of its models' files.

    Attributes:
        work: TranslationJob.
        contents: of each model, of each of `FILES`, bytes.
    """

    work: TranslationJob
    contents: tuple[tuple[bytes, ...], ...]

    @classmethod
    def from_job(cls, work):
        """Returns the ModelBundle of a work whose models lie on this machine.

        Args:
            work: TranslationJob.
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
            TranslationJob with the models that lie there.
        """
        models = []
        for place, (model, contents) in enumerate(
            zip(self.work.models, self.contents)
        ):
            # Messages name it.
            name = pathlib.Path(model.path).resolve().name
            path = folder / f"{place}" / name
            path.mkdir(parents=True)
            for name, content in zip(FILES, contents):
                (path / name).write_bytes(content)
            models.append(dataclasses.replace(model, path=str(path)))
        return dataclasses.replace(self.work, models=tuple(models))


_LOADED = {}


def load_bundle(work, fetch):
    """Returns a work with its models in memory, once in a process.

    Args:
        work: TranslationJob as it was on the other machine.
        fetch: function that returns its ModelBundle.

    Raises:
        InputError: a model cannot be loaded.
    """
    if work not in _LOADED:
        # Not for longer: a worker that is killed cleans nothing up.
        with tempfile.TemporaryDirectory(prefix="synthesis-") as folder:
            here = fetch().unpack(pathlib.Path(folder))
            here.load()
        _LOADED[work] = here
    return _LOADED[work]
