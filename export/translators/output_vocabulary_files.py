"""Files that select the tokens that translations may contain.

`--target_pieces` are sentences of the target language, whose tokens are a fixed
output vocabulary. `--shortlist` is a lexical shortlist in Marian's format: each
line has a target token, a source token and the probability that the first
translates the second. The source token "NULL" is part of every sentence.
"""

import gzip
import itertools
import pathlib
import re
import typing
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import sentencepiece

from export.common.errors import InputError
from export.common.progress_bar import ProgressBar
from export.common.storage import AnyPath
from export.lines.files import read_lines
from export.tokenizers.letter_case import CASE_MARKS

if typing.TYPE_CHECKING:
    import keras_transformer as kt
    from export.tokenizers.python_tokenizers import PythonTokenizer
    from export.tokenizers.tokenizer import Tokenizer
    from export.translators.languages import Tokenizers

# Relative to an export's folder.
TARGET_PIECES_FILE = pathlib.PurePath("assets.extra", "target_pieces.txt")
SHORTLIST_FILE = pathlib.PurePath("assets.extra", "shortlist.gz")
ANY_SOURCE = "NULL"
# Default number of tokens in the shortlist of a sentence.
DEFAULT_SHORTLIST_SIZE = 1024

_LINES_PER_CHUNK = 4096
# Number of likeliest target tokens stored for each source token.
_NUM_BEST = 100
# After these comes the target token with the same text, with this probability,
# since names are copied. Bytes have no other translation.
_COPY_COLUMN = _NUM_BEST
_COPY_PROBABILITY = 0.01
_BYTE_TOKEN = "<0x[0-9A-F]{2}>"


def load_output_vocabulary(
    search: Mapping[str, typing.Any],
    tokenizer: "Tokenizers",
    config: "kt.TransformerConfig",
) -> dict[str, typing.Any]:
    """Returns the flags of a search, a dict, as GraphTranslator's arguments.

    The paths of the flags `target_pieces`, a list, and `shortlist` become a
    list of ids and a kt.OutputVocabulary; `config` is the model's. Raises
    InputError if a file is not valid, or if flags are incompatible.
    """
    arguments = dict(search)
    text_paths = arguments.pop("target_pieces", None)
    path = arguments.pop("shortlist", None)
    size = arguments.pop("shortlist_size", None)
    if text_paths is not None and path is not None:
        raise InputError("Give --shortlist or --target_pieces, not both.")
    if path is not None:
        arguments["shortlist"] = read_shortlist(path, tokenizer, config, size)
    elif size is not None:
        raise InputError("Give --shortlist, or omit --shortlist_size.")
    if text_paths is not None:
        ids = collect_target_pieces(tokenizer.target, text_paths)
        arguments["target_pieces"] = ids
    return arguments


def collect_target_pieces(
    tokenizer: "Tokenizer | PythonTokenizer", paths: "Sequence[str | AnyPath]"
) -> list[int]:
    """Returns the sorted ids of the tokens in text files.

    Tokens of one character or one byte, and the marks of capitals, are always
    included, so that any text can be spelled; special ids are not. The files
    have one sentence per line, plain or .gz. Raises InputError if one cannot be
    read or all are blank.
    """
    processor = _load_processor(tokenizer)
    is_in_text = np.zeros(len(processor), bool)
    for path in paths:
        with ProgressBar(f"Reading {path}", None, "lines") as bar:
            lines = read_lines(path)
            while chunk := [*itertools.islice(lines, _LINES_PER_CHUNK)]:
                is_in_text[np.concatenate(tokenizer.encode(chunk))] = True
                bar.update(len(chunk))
    # Text is never encoded to other special ids.
    is_in_text[[processor.unk_id(), processor.eos_id()]] = False
    if not is_in_text.any():
        raise InputError(
            f"There is no text in {', '.join(map(str, paths))}; give sentences "
            "of the target language to --target_pieces."
        )
    # Ids above the vocabulary size only split text: see VocabTokenizer.
    tokens = token_names(tokenizer)
    return [
        i
        for i, token in enumerate(tokens)
        if is_in_text[i]
        or len(token) == 1
        or processor.IsByte(i)
        or token.endswith(CASE_MARKS)
    ]


def format_target_pieces(
    ids: Iterable[int], tokenizer: "Tokenizer | PythonTokenizer"
) -> str:
    """Returns the text of an export's file, with one id and token per line."""
    tokens = token_names(tokenizer)
    # A line break in a token would end the line.
    lines = [f"{i}\t{tokens[i]}".replace("\n", " ") for i in ids]
    return "\n".join([*lines, ""])


def read_target_pieces(version: pathlib.Path) -> list[int]:
    """Returns the ids in an export's file; InputError if it is not valid."""
    path = version / TARGET_PIECES_FILE
    try:
        return [
            int(line.split("\t")[0]) for line in read_lines(path, verbatim=True)
        ]
    except ValueError:
        raise InputError(
            f"{path} is not a file of ids and tokens; export the model again "
            "with export.saved_model."
        ) from None


def read_shortlist(
    path: "str | AnyPath",
    tokenizer: "Tokenizers",
    config: "kt.TransformerConfig",
    size: int | None = None,
) -> "kt.OutputVocabulary":
    """Reads a shortlist file, plain or .gz, as a kt.OutputVocabulary.

    Raises InputError if the file is not valid or of another model, or if `size`
    is not below the model's vocabulary size.
    """
    import keras_transformer as kt

    size = size or DEFAULT_SHORTLIST_SIZE
    if size >= config.vocabulary_size:
        raise InputError(
            f"Expected --shortlist_size below the vocabulary size, "
            f"{config.vocabulary_size}, got {size}."
        )
    source_ids = _ids_by_token(tokenizer.source)
    target_ids = _ids_by_token(tokenizer.target)
    pairs, pair_probabilities = [], []
    probability: typing.Any
    frequencies = np.zeros(config.vocabulary_size, np.float32)
    for number, line in enumerate(read_lines(path, verbatim=True), 1):
        try:
            target, source, probability = line.split(" ")
            probability = float(probability)
            if not 0 <= probability <= 1:
                raise ValueError
            if source == ANY_SOURCE:
                frequencies[target_ids[target]] = probability
            else:
                pairs.append((source_ids[source], target_ids[target]))
                pair_probabilities.append(probability)
        except (ValueError, KeyError):
            raise InputError(
                f"Line {number} of {path} is not a target token, a source "
                "token and a probability of this model; make the file with "
                "trainers.shortlist."
            ) from None
    if not pairs:
        raise InputError(
            f"There is nothing in {path}; make it with trainers.shortlist."
        )
    targets, probabilities = _select_best_targets(
        np.array(pairs),
        np.array(pair_probabilities),
        config.encoder_vocabulary_size,
    )
    for token, source in source_ids.items():
        if token in target_ids:
            targets[source, _COPY_COLUMN] = target_ids[token]
            is_byte = re.fullmatch(_BYTE_TOKEN, token)
            probability = 1.0 if is_byte else _COPY_PROBABILITY
            probabilities[source, _COPY_COLUMN] = probability
    return kt.OutputVocabulary.shortlist(
        targets, probabilities, frequencies, size
    )


def copy_shortlist(path: "str | AnyPath", target_path: pathlib.Path) -> None:
    """Copies a shortlist file, plain or .gz, as .gz."""
    with gzip.open(target_path, "wt", encoding="utf-8", newline="\n") as stream:
        for line in read_lines(path, verbatim=True):
            stream.write(f"{line}\n")


def token_names(tokenizer: "Tokenizer | PythonTokenizer") -> list[str]:
    """Returns the tokens of a Tokenizer in the order of their ids."""
    processor = _load_processor(tokenizer)
    return [*map(processor.IdToPiece, range(tokenizer.vocabulary_size))]


def _ids_by_token(tokenizer):
    return {token: i for i, token in enumerate(token_names(tokenizer))}


def _load_processor(tokenizer):
    return sentencepiece.SentencePieceProcessor(model_proto=tokenizer.proto)


def _select_best_targets(pairs, probabilities, num_sources):
    """Returns the likeliest targets of each source, and their probabilities.

    `pairs` are (source, target) ids, int [N, 2]. Both results are [num_sources,
    _NUM_BEST + 1], padded, likeliest first, with the _COPY_COLUMN empty.
    """
    # By source, probability (the highest first), and target.
    order = np.lexsort((pairs[:, 1], -probabilities, pairs[:, 0]))
    sources, targets = pairs[order].T
    first_of_source = np.searchsorted(sources, sources)
    ranks = np.arange(len(sources)) - first_of_source
    is_best = ranks < _NUM_BEST
    # Row and column of each of the best pairs.
    cells = sources[is_best], ranks[is_best]
    best_targets = np.zeros((num_sources, _NUM_BEST + 1), np.int32)
    best_targets[cells] = targets[is_best]
    best_probabilities = np.zeros(best_targets.shape, np.float32)
    best_probabilities[cells] = probabilities[order][is_best]
    return best_targets, best_probabilities
