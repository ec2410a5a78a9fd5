"""Packages for Argos Translate and LibreTranslate."""

import json
import pathlib
import re
import typing
import zipfile

from export.common.errors import InputError
from export.common.storage import atomic_write
from export.ctranslate2.ctranslate2_model import VOCABULARY_FILE
from export.tokenizers.python_tokenizers import split_vocabulary

# Of the package and of the program that reads it.
_VERSION = "1.0"


def write_argos_package(
    folder: pathlib.Path, languages: tuple[str, str], path: pathlib.Path
) -> None:
    """Writes a folder of `save_ctranslate2` as an `.argosmodel` file.

    Args:
        folder: the folder.
        languages: codes of source and target, such as ("en", "de").
        path: the file to write.
    """
    source, target = languages
    metadata = {
        "package_version": _VERSION,
        "argos_version": _VERSION,
        "from_code": source,
        "from_name": source,
        "to_code": target,
        "to_name": target,
        "links": [],
        "type": "translate",
    }
    root = f"translate-{source}_{target}-{_VERSION.replace('.', '_')}"
    with (
        atomic_write(path) as temporary,
        zipfile.ZipFile(temporary, "w") as package,
    ):
        for file in sorted(folder.iterdir()):
            if file.name != VOCABULARY_FILE:
                package.write(file, f"{root}/model/{file.name}")
        package.write(folder / VOCABULARY_FILE, f"{root}/sentencepiece.model")
        package.writestr(f"{root}/metadata.json", json.dumps(metadata))


def read_argos_languages(directory: typing.Any) -> tuple[str, str]:
    """Returns the codes of source and target of a ModelDirectory.

    Raises InputError if Argos Translate cannot use the model: it needs codes,
    and one vocabulary for both languages.
    """
    source, target = split_vocabulary(directory.read_vocabulary())
    if source is not target:
        raise InputError(
            "Argos Translate has one vocabulary for both languages, and this "
            "model has two; omit --argos."
        )
    run = directory.read_run()
    languages = run.get("source_language"), run.get("target_language")
    for code in languages:
        # It is part of the path in the package.
        if not re.fullmatch(r"[\w-]+", str(code or "")):
            raise InputError(
                "Argos Translate needs the languages' codes, such as en; "
                f"{directory.run_path} has source_language {languages[0]} and "
                f"target_language {languages[1]}: mend them there."
            )
    return languages
