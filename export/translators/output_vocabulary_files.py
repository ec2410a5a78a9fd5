"""Files that select the tokens that translations may contain.

`--target_pieces` are sentences of the target language, whose tokens are a fixed
output vocabulary. `--shortlist` is a lexical shortlist in Marian's format: each
line has a target token, a source token and the probability that the first
translates the second. The source token "NULL" is part of every sentence.
"""

import gzip
import itertools
import pathlib

import numpy as np
import sentencepiece

from export.common.errors import InputError
from export.common.progress_bar import ProgressBar
from export.lines.files import read_lines

# Relative to an export's folder.
TARGET_PIECES_FILE = pathlib.PurePath("assets.extra", "target_pieces.txt")
SHORTLIST_FILE = pathlib.PurePath("assets.extra", "shortlist.gz")
ANY_SOURCE = "NULL"
# Default number of tokens in the shortlist of a sentence.
DEFAULT_SHORTLIST_SIZE = 1024

_LINES_PER_CHUNK = 4096
# Number of likeliest target tokens stored for each source token.
_NUM_BEST = 100
# Probability of the target token with the same text, since names are copied.
_COPY_PROBABILITY = 0.01


def load_output_vocabulary(search, tokenizer, config):
    """Replaces the paths in GraphTranslator's arguments by their contents.

    In the dict `search`, `target_pieces` is a list of paths and `shortlist` a
    path, with `shortlist_size`; `config` is the model's. Raises InputError if a
    file is not valid, or if the arguments are incompatible.
    """
    search = dict(search)
    size = search.pop("shortlist_size", None)
    if "target_pieces" in search and "shortlist" in search:
        raise InputError("Give --shortlist or --target_pieces, not both.")
    if "shortlist" in search:
        path = search["shortlist"]
        search["shortlist"] = read_shortlist(path, tokenizer, config, size)
    elif size is not None:
        raise InputError("Give --shortlist, or omit --shortlist_size.")
    if "target_pieces" in search:
        paths = search["target_pieces"]
        search["target_pieces"] = collect_target_pieces(tokenizer.target, paths)
    return search


def collect_target_pieces(tokenizer, paths):
    """Returns the sorted ids of the tokens in text files.

    Tokens of one character or one byte are always included, so that any text
    can be spelled; special ids never. The files have one sentence per line,
    plain or .gz. Raises InputError if one cannot be read or all are blank.
    """
    vocabulary = _load_vocabulary(tokenizer)
    is_used = np.zeros(len(vocabulary), bool)
    for path in paths:
        with ProgressBar(f"Reading {path}", None, "lines") as bar:
            lines = read_lines(path)
            while chunk := [*itertools.islice(lines, _LINES_PER_CHUNK)]:
                is_used[np.concatenate(tokenizer.encode(chunk))] = True
                bar.update(len(chunk))
    is_used[[vocabulary.unk_id(), vocabulary.eos_id()]] = False
    if not is_used.any():
        raise InputError(
            f"There is no text in {', '.join(map(str, paths))}; give sentences "
            "of the target language to --target_pieces."
        )
    for i in range(len(vocabulary)):
        if vocabulary.IsByte(i) or len(vocabulary.IdToPiece(i)) == 1:
            is_used[i] = True
    return np.flatnonzero(is_used[: tokenizer.vocabulary_size]).tolist()


def format_target_pieces(ids, tokenizer):
    """Returns the text of an export's file, with one id and token per line."""
    tokens = token_names(tokenizer)
    # A line break in a token would end the line.
    lines = [f"{i}\t{tokens[i]}".replace("\n", " ") for i in ids]
    return "\n".join([*lines, ""])


def read_target_pieces(version):
    """Returns the ids in an export's file; InputError if it is not valid."""
    path = version / TARGET_PIECES_FILE
    try:
        return [int(line.split("\t")[0]) for line in read_lines(path, True)]
    except ValueError:
        raise InputError(
            f"{path} is not a file of ids and tokens; export the model again "
            "with export.saved_model."
        ) from None


def read_shortlist(path, tokenizer, config, size=None):
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
    frequencies = np.zeros(config.vocabulary_size, np.float32)
    for number, line in enumerate(read_lines(path, True), 1):
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
    # The last column is the target token with the same text.
    for token, source in source_ids.items():
        if token in target_ids:
            targets[source, _NUM_BEST] = target_ids[token]
            probabilities[source, _NUM_BEST] = _COPY_PROBABILITY
    return kt.OutputVocabulary.shortlist(
        targets, probabilities, frequencies, size
    )


def copy_shortlist(path, copy):
    """Copies a shortlist file as .gz."""
    with gzip.open(copy, "wt", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{line}\n" for line in read_lines(path, True))


def token_names(tokenizer):
    """Returns the tokens of a Tokenizer in the order of their ids."""
    vocabulary = _load_vocabulary(tokenizer)
    return [*map(vocabulary.IdToPiece, range(tokenizer.vocabulary_size))]


def _ids_by_token(tokenizer):
    return {token: i for i, token in enumerate(token_names(tokenizer))}


def _load_vocabulary(tokenizer):
    return sentencepiece.SentencePieceProcessor(model_proto=tokenizer.proto)


def _select_best_targets(pairs, probabilities, num_sources):
    """Returns each source's best targets and their probabilities, padded."""
    order = np.lexsort((pairs[:, 1], -probabilities, pairs[:, 0]))
    sources, targets = pairs[order].T
    ranks = np.arange(len(sources)) - np.searchsorted(sources, sources)
    is_best = ranks < _NUM_BEST
    cells = sources[is_best], ranks[is_best]
    best_targets = np.zeros((num_sources, _NUM_BEST + 1), np.int32)
    best_targets[cells] = targets[is_best]
    best_probabilities = np.zeros(best_targets.shape, np.float32)
    best_probabilities[cells] = probabilities[order][is_best]
    return best_targets, best_probabilities
