"""The files of `MarianTokenizer.save_pretrained`, read and checked."""

import re

from export.errors import InputError
from export.pretrained.incoming import read_bytes
from export.pretrained.known_fields import (
    TOKENIZER,
    TOKENIZER_NOTES,
    check_fields,
    read_optional,
    short,
)
from export.pretrained.vocabulary import (
    complete_table,
    read_table,
    vocabulary_of,
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
    """What a directory says of its tokenizer.

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
        self._added = read_optional(folder / _ADDED) or {}
        others = set()
        for file in (_CONFIG, _SPECIAL):
            others |= self._read(file, read_optional(folder / file) or {})
        others |= self._added.keys() - {_END, _UNKNOWN, _PADDING}
        if others:
            self.notes.append(
                f"{len(others)} added tokens, such as {min(others)}, are "
                "found in a source only as a tag that leads it, such as "
                ">>fra<<, and special ones are not removed from a translation"
            )

    def _read(self, file, found):
        """Reads a file of fields; returns the set of tokens without ids."""
        found = {name: _content(each) for name, each in found.items()}
        self.notes += check_fields(found, TOKENIZER, TOKENIZER_NOTES, file)
        if file == _CONFIG:
            self._separate = found.get(
                "separate_vocabs", (self._folder / _TARGET_TABLE).exists()
            )
            languages = found.get("source_lang"), found.get("target_lang")
            self.languages = [
                each if isinstance(each, str) else None for each in languages
            ]
        tokens = []
        for name in _TOKENS:
            listed = found.get(name, [])
            listed = [*listed.values()] if isinstance(listed, dict) else listed
            tokens += listed if isinstance(listed, list) else [listed]
        listed = found.get("added_tokens_decoder", {})
        listed = listed.items() if isinstance(listed, dict) else [(listed,) * 2]
        listed = [(_content(token), each) for each, token in listed]
        listed += self._added.items()
        tokens = [_content(token) for token in tokens]
        for token, each in [*listed, *((token, 0) for token in tokens)]:
            if not (isinstance(token, str) and token) or not (
                re.fullmatch("[0-9]{1,8}", str(each))
            ):
                raise InputError(
                    f"{self._folder} must give each added token in {_CONFIG} "
                    f"and {_ADDED} a text and an id, not {short(token)} and "
                    f"{short(each)}."
                )
        self._added = {token: int(each) for token, each in listed}
        return set(tokens) - {_END, _UNKNOWN, _PADDING}

    def vocabularies(self, sizes, begin, end):
        """Returns the Vocabulary of the source and of the target.

        Args:
            sizes: rows of the embeddings of the source and of the target.
            begin: their id that the decoder begins with.
            end: their id of the end of an output.

        Raises:
            InputError: a file is missing, damaged, or not of such a model.
        """
        source, target = (self._folder / each for each in (_TABLE, _TABLE))
        source_table = target_table = _table(source, self._added)
        source_begin = begin
        if self._separate:
            target = self._folder / _TARGET_TABLE
            target_table = _table(target, {})
            source_begin = source_table.get(_PADDING)
        if begin not in target_table.values():
            raise InputError(
                f"The decoder of {self._folder} begins with the id {begin} "
                f"(decoder_start_token_id), which {target} gives to no piece."
            )
        if target_table.get(_END) != end:
            raise InputError(
                f"The outputs of {self._folder} end with the id {end} "
                f"(eos_token_id), but {target} gives </s> the id "
                f"{target_table.get(_END)}; both must be one."
            )
        return [
            self._vocabulary(source, source_table, sizes[0], source_begin, 0),
            self._vocabulary(target, target_table, sizes[1], begin, 1),
        ]

    def _vocabulary(self, path, table, size, begin, side):
        unknown, end = table.get(_UNKNOWN), table.get(_END)
        if None in (unknown, end) or len({unknown, begin, end}) < 3:
            raise InputError(
                f"{path} must have three ids of their own for the unknown "
                f"piece <unk>, the begin and the end, not {unknown}, {begin} "
                f"and {end}."
            )
        table, notes = complete_table(table, size, path)
        self.notes += [note for note in notes if note not in self.notes]
        spm = self._folder / ("source.spm", "target.spm")[side]
        return vocabulary_of(
            table, read_bytes(spm), unknown, begin, end, str(spm)
        )


def _content(token):
    """Returns the text of a token, which may be an object."""
    is_token = isinstance(token, dict) and "content" in token
    return token["content"] if is_token else token


def _table(path, added):
    """Returns the table of a file, with the added tokens."""
    table = read_table(read_bytes(path), str(path))
    pieces = {each: piece for piece, each in table.items()}
    for token, each in added.items():
        if (table.get(token, each), pieces.get(each, token)) != (each, token):
            raise InputError(
                f"The added token {token!r} has the id {each}, but {path} "
                f"gives that id to {pieces.get(each)!r} and the token the id "
                f"{table.get(token)}; the files are not of one tokenizer."
            )
    return table | added
