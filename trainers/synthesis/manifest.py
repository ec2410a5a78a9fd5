"""The manifest: what pairs are made of, and at the end what they are."""

import dataclasses
import json

from export.errors import InputError
from export.files.atomic import written_whole
from export.files.places import reached, reason
from trainers.synthesis.lines import Input
from trainers.synthesis.models import FILES, ModelFiles
from trainers.synthesis.options import SynthesisOptions

FILE = "manifest.json"
_FORMAT = 1
# What reading JSON of another form raises.
_NOT_OURS = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


@dataclasses.dataclass(frozen=True)
class Manifest:
    """All facts about a folder of pairs.

    Attributes:
        input: Input.
        models: tuple of ModelFiles.
        options: SynthesisOptions.
        counts: of lines and pairs, by what became of them; empty before the
            end.
        outputs: file's name to its SHA-256, hex; empty before the end.
    """

    input: Input
    models: tuple[ModelFiles, ...]
    options: SynthesisOptions
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    outputs: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def complete(self):
        """Whether nothing is left to do."""
        return bool(self.outputs)

    def difference(self, other):
        """Says in what the two would make other pairs.

        Args:
            other: Manifest.

        Returns:
            "what there and what here" in words; "" where they agree. Names of
            files do not count, their contents do.
        """
        there, here = self._decisive(), other._decisive()
        for name, value in there.items():
            if here[name] != value:
                return f"{name} {value}, not {here[name]}"
        return ""

    def _decisive(self):
        models = [
            f"{name} of SHA-256 {digest[:12]}"
            for model in self.models
            for name, digest in zip(FILES, model.sha256)
        ]
        return {
            "an input of": f"{self.input.lines:,} lines and SHA-256 "
            f"{self.input.sha256[:12]}",
            "the model": ", ".join(models),
            **dataclasses.asdict(self.options),
        }


def write_manifest(folder, manifest):
    """Writes a folder's manifest whole.

    Args:
        folder: pathlib.Path or UPath.
        manifest: Manifest.

    Raises:
        InputError: the system refused to write.
    """
    content = {"format": _FORMAT, **dataclasses.asdict(manifest)}
    for model in content["models"]:
        model["sha256"] = dict(zip(FILES, model["sha256"]))
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    with written_whole(folder / FILE) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_manifest(folder):
    """Returns the Manifest of a folder, None where there is none.

    Args:
        folder: pathlib.Path or UPath.

    Raises:
        InputError: it cannot be read, or is none of ours.
    """
    path = folder / FILE
    try:
        with reached(path):
            text = path.read_text(encoding="utf-8")
        content = json.loads(text)
        if content.pop("format") != _FORMAT:
            raise ValueError("it is of another version of this program")
        models = tuple(
            ModelFiles(
                model["path"], tuple(model["sha256"][name] for name in FILES)
            )
            for model in content.pop("models")
        )
        read = Input(**content.pop("input"))
        options = SynthesisOptions(**content.pop("options"))
        return Manifest(read, models, options, **content)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"Cannot read {path}: {reason(error)}.") from error
    except _NOT_OURS as error:
        raise InputError(
            f"{path} is not the manifest of synthesized pairs ({error!r}); "
            "give another --output_dir."
        ) from error
