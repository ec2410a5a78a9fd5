"""Reads the files of `MarianTokenizer.save_pretrained`."""

import re

from export.common.errors import InputError
from export.pretrained.field_tables import TOKENIZER, check_fields, shorten
from export.pretrained.text_files import read_bytes, read_optional_json
from export.pretrained.vocabulary import (
    complete_table,
    make_vocabulary,
    read_table,
)

_CONFIG, _SPECIAL = "tokenizer_config.json", "special_tokens_map.json"
_ADDED = "added_tokens.json"
_TABLE, _TARGET_TABLE = "vocab.json", "target_vocab.json"
_END, _UNKNOWN, _PADDING = "</s>", "<unk>", "<pad>"
# Fields of tokens that are found in a text before it is cut into pieces.
_TOKENS = (
    *("bos_token", "sep_token", "cls_token", "mask_token"),
    *("additional_special_tokens", "extra_special_tokens"),
)


class MarianTokenizerFiles:
    """The tokenizer of a directory.

    Args:
        folder: pathlib.Path.

    Attributes:
        languages: codes of the source and the target, None where missing.
        notes: list of str: what differs here.

    Raises:
        InputError: a file cannot be read, or has a field that is not known.
    """

    def __init__(self, folder):
        self._folder = folder
        self.notes = []
        fields = read_optional_json(folder / _CONFIG)
        self._is_separate = fields.get(
            "separate_vocabs", (folder / _TARGET_TABLE).exists()
        )
        self.languages = [
            code if isinstance(code, str) else None
            for code in (fields.get("source_lang"), fields.get("target_lang"))
        ]
        self._added = read_optional_json(folder / _ADDED)
        tokens = self._read_tokens(_CONFIG) | self._read_tokens(_SPECIAL)
        others = (tokens | self._added.keys()) - {_END, _UNKNOWN, _PADDING}
        if others:
            self.notes.append(
                f"{len(others)} added tokens, such as {min(others)}, are "
                "found in a source only as a tag that leads it, such as "
                ">>fra<<, and special ones are not removed from a translation"
            )

    def _read_tokens(self, file):
        """Returns the set of tokens that a file adds without an id."""
        fields = {
            name: _content(value)
            for name, value in read_optional_json(self._folder / file).items()
        }
        self.notes += check_fields(fields, TOKENIZER, file)
        tokens = []
        for name in _TOKENS:
            listed = fields.get(name, [])
            listed = [*listed.values()] if isinstance(listed, dict) else listed
            tokens += listed if isinstance(listed, list) else [listed]
        tokens = [_content(token) for token in tokens]
        added = fields.get("added_tokens_decoder", {})
        added = added.items() if isinstance(added, dict) else [(added, added)]
        added = [(_content(token), row) for row, token in added]
        added += self._added.items()
        for token, row in [*added, *((token, 0) for token in tokens)]:
            is_text = isinstance(token, str) and token
            if not is_text or not re.fullmatch("[0-9]{1,8}", str(row)):
                raise InputError(
                    f"{self._folder}: expected a text and an id for each added "
                    f"token of {_CONFIG} and {_ADDED}, got {shorten(token)} "
                    f"and {shorten(row)}."
                )
        self._added = {token: int(row) for token, row in added}
        return set(tokens)

    def vocabularies(self, sizes, begin, end):
        """Returns the Vocabulary of the source and of the target.

        Args:
            sizes: rows of the embeddings of the source and of the target.
            begin: id that the decoder begins with.
            end: id of the end of an output.

        Raises:
            InputError: a file is missing, damaged, or not of such a model.
        """
        paths = [self._folder / _TABLE] * 2
        tables = [_read_table(paths[0], self._added)] * 2
        begins = [begin, begin]
        if self._is_separate:
            paths[1] = self._folder / _TARGET_TABLE
            tables[1] = _read_table(paths[1], {})
            begins[0] = tables[0].get(_PADDING)
        if begin not in tables[1].values():
            raise InputError(
                f"The decoder of {self._folder} begins with the id {begin} "
                f"(decoder_start_token_id), which {paths[1]} gives to no piece."
            )
        if tables[1].get(_END) != end:
            raise InputError(
                f"The outputs of {self._folder} end with the id {end} "
                f"(eos_token_id), but {paths[1]} gives </s> the id "
                f"{tables[1].get(_END)}; both must be one."
            )
        spms = self._folder / "source.spm", self._folder / "target.spm"
        return [
            self._make_vocabulary(*side)
            for side in zip(paths, tables, sizes, begins, spms)
        ]

    def _make_vocabulary(self, path, table, size, begin, spm):
        unknown, end = table.get(_UNKNOWN), table.get(_END)
        if None in (unknown, end) or len({unknown, begin, end}) < 3:
            raise InputError(
                f"{path}: expected three ids for the unknown piece <unk>, the "
                f"begin and the end, got {unknown}, {begin} and {end}."
            )
        table, notes = complete_table(table, size, path)
        self.notes += [note for note in notes if note not in self.notes]
        content = read_bytes(spm)
        return make_vocabulary(table, content, unknown, begin, end, str(spm))


def _content(token):
    """Returns the text of a token, which may be an object."""
    is_object = isinstance(token, dict) and "content" in token
    return token["content"] if is_object else token


def _read_table(path, added):
    """Returns the table of a file, with the added tokens."""
    table = read_table(path)
    pieces = {row: piece for piece, row in table.items()}
    for token, row in added.items():
        if table.get(token, row) != row or pieces.get(row, token) != token:
            raise InputError(
                f"The added token {token!r} has the id {row}, but {path} "
                f"gives that id to {pieces.get(row)!r} and the token the id "
                f"{table.get(token)}; the files are not of one tokenizer."
            )
    return table | added
