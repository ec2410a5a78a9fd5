"""Translates lines: `python -m export.translate --model M < in > out`.

M is a model directory, an exported version, or the folder of its versions
(the newest is taken). A line gives a line, in order; blank lines stay blank.
"""

import itertools
import pathlib
import sys

from absl import flags
from tqdm import tqdm

from export import command
from export.errors import InputError
from export.versions import is_version

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "model", None, "Model directory or exported version.", required=True
)

# Lines read ahead and sorted by length together: enough for full batches,
# little enough memory for any file.
_CHUNK = 4096


def main(arguments):
    """Translates standard input to standard output."""
    del arguments
    translator = open_translator(FLAGS.model)
    lines = read_lines(sys.stdin.buffer)
    with tqdm(
        unit=" sentences", disable=not sys.stderr.isatty(), file=sys.stderr
    ) as bar:
        while chunk := list(itertools.islice(lines, _CHUNK)):
            translations = translator.translate(chunk, bar.update)
            texts = (f"{translation.text}\n" for translation in translations)
            sys.stdout.buffer.write("".join(texts).encode("utf-8"))
            sys.stdout.buffer.flush()


def open_translator(model):
    """Returns what translates for a model directory or an export.

    Args:
        model: path of a model directory, of an exported version, or of the
            folder that holds exported versions.

    Raises:
        InputError: it is none of these.
    """
    path = pathlib.Path(model)
    if not path.is_dir():
        raise InputError(
            f"There is no folder {path}; --model must be a model directory "
            "or an exported version."
        )
    version = _exported_version(path)
    # Only one of the two is imported: a session that behaves as the server's
    # wants a process without Python's TensorFlow.
    if version is not None:
        from export.exported_translator import ExportedTranslator

        return ExportedTranslator(version)
    from export.translator import Translator

    return Translator.from_directory(path)


def _exported_version(path):
    if (path / "saved_model.pb").exists():
        return path
    versions = [child for child in path.iterdir() if is_version(child.name)]
    return max(versions, key=lambda child: int(child.name), default=None)


def read_lines(stream):
    r"""Yields the lines of a binary stream as str, without their "\n".

    Raises:
        InputError: a line is not UTF-8; its number is named.
    """
    for number, line in enumerate(stream, 1):
        try:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(
                f"Line {number} of the input is not UTF-8; convert it first, "
                "with iconv for example."
            ) from None


if __name__ == "__main__":
    command.run(main)
