"""The vocabularies of Marian: tables from piece to id."""

from export.errors import InputError
from export.pretrained.incoming import read_bytes
from export.pretrained.vocabulary import complete_table
from export.pretrained.yaml_text import read_yaml_mapping

END, UNKNOWN = "</s>", "<unk>"
_YAML = (".yml", ".yaml", ".json")
_NO_TABLES = {
    ".spm": "a SentencePiece model in the place of a table",
    ".fsv": "a factored vocabulary",
}


def read_tables(paths, sizes):
    """Returns the tables of both sides.

    Args:
        paths: two pathlib.Path, of the source's and the target's file.
        sizes: two int, the rows of their matrices.

    Returns:
        A list of two dict, piece to id, whose ids have no gap; and a list of
        str, notes on them.

    Raises:
        InputError: one is missing, or no table of such a model.
    """
    for path in paths:
        what = _NO_TABLES.get(path.suffix)
        if what:
            raise InputError(
                f"{path} is {what}, which is not supported; a table of pieces "
                "beside source.spm and target.spm is."
            )
    if paths[0] == paths[1] and sizes[0] == sizes[1]:
        table, notes = _table(paths[0], sizes[0])
        return [table, table], notes
    found = [_table(path, size) for path, size in zip(paths, sizes)]
    return [table for table, _ in found], [
        note for _, notes in found for note in notes
    ]


def _table(path, size):
    """Returns a table whose ids are 0 to `size` - 1, and notes on it."""
    table, notes = complete_table(_read_table(path), size, path)
    for name in (END, UNKNOWN):
        if name not in table:
            raise InputError(
                f"{path} must have the piece {name}, as vocabularies of "
                "Marian have it."
            )
    return table, notes


def _read_table(path):
    content = read_bytes(path)
    if path.suffix not in _YAML:
        return _table_of_lines(content, path)
    found = read_yaml_mapping(content, str(path))
    for piece, number in found.items():
        if not (
            isinstance(number, str)
            and number.isascii()
            and number.isdigit()
            and len(number) < 10
        ):
            raise InputError(
                f"{path} must give each piece an id, but {piece[:40]!r} has "
                "none."
            )
    return {piece: int(number) for piece, number in found.items()}


def _table_of_lines(content, path):
    try:
        text = content.decode("utf-8").removesuffix("\n")
        # As Marian reads it.
        lines = [line.removesuffix("\r") for line in text.split("\n")]
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text.") from None
    table = {line: number for number, line in enumerate(lines)}
    if len(table) != len(lines):
        raise InputError(f"{path} has a piece twice.")
    return table
