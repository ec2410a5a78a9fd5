"""Lexical shortlists: the likely target tokens of each source token.

Files have Marian's format: a line is a target token, a source token and the
probability that the first translates the second, separated by spaces. The
source token "NULL" stands for every sentence. trainers.shortlist writes them.
"""

import gzip
import pathlib

import numpy as np
import sentencepiece

from export.common.errors import InputError
from export.lines.files import read_lines
from export.translators.target_pieces import collect_ids

# Relative to an export's folder.
FILE = pathlib.PurePath("assets.extra", "shortlist.gz")
ANY_SOURCE = "NULL"
# Default number of tokens in the shortlist of a sentence.
SIZE = 1024

# Target tokens stored for each source token: the likeliest ones, and the token
# with the same text at this probability, since names are copied.
_BEST = 100
_SAME_TEXT = 0.01


def load_output_vocabulary(search, tokenizer, config):
    """Replaces the paths in GraphTranslator's arguments by their contents.

    Args:
        search: dict of the arguments, in which `target_pieces` is a list of
            paths and `shortlist` a path, with `shortlist_size`.
        tokenizer: Tokenizer or TokenizerPair.
        config: TransformerConfig.

    Raises:
        InputError: a file is not valid, or the flags are incompatible.
    """
    search = dict(search)
    size = search.pop("shortlist_size", None)
    if "target_pieces" in search and "shortlist" in search:
        raise InputError(
            "--shortlist and --target_pieces both choose the tokens of a "
            "translation: omit one of them."
        )
    if "shortlist" in search:
        path = search["shortlist"]
        search["shortlist"] = read_shortlist(path, tokenizer, config, size)
    elif size is not None:
        raise InputError(
            "--shortlist_size needs --shortlist; give it, or omit the size."
        )
    if "target_pieces" in search:
        paths = search["target_pieces"]
        search["target_pieces"] = collect_ids(tokenizer.target, paths)
    return search


def read_shortlist(path, tokenizer, config, size=None):
    """Reads a file, plain or .gz, into a kt.OutputVocabulary.

    Raises InputError if the file is not valid, has a token that the vocabulary
    lacks, or if `size` is not below the model's vocabulary size.
    """
    import keras_transformer as kt

    size = size or SIZE
    if size >= config.vocabulary_size:
        raise InputError(
            f"--shortlist_size={size} is not below the vocabulary size, "
            f"{config.vocabulary_size}; give less, or omit the shortlist."
        )
    source_names = _names(tokenizer.source)
    target_names = _names(tokenizer.target)
    source_ids, target_ids = map(_ids, (source_names, target_names))
    pairs, values = [], []
    always = np.zeros(config.vocabulary_size, np.float32)
    for number, line in enumerate(read_lines(path, True), 1):
        try:
            target, source, probability = line.split(" ")
            probability = float(probability)
            if not 0 <= probability <= 1:
                raise ValueError
        except ValueError:
            raise InputError(
                f"Line {number} of {path} is not a target token, a source "
                "token and a probability; make the file with "
                "trainers.shortlist."
            ) from None
        try:
            if source == ANY_SOURCE:
                always[target_ids[target]] = probability
            else:
                pairs.append((source_ids[source], target_ids[target]))
                values.append(probability)
        except KeyError as error:
            raise InputError(
                f"Line {number} of {path} has {error.args[0]!r}, which is not "
                "in the model's vocabulary; give the shortlist that was made "
                "for it."
            ) from None
    if not pairs:
        raise InputError(
            f"There is nothing in {path}; make it with trainers.shortlist."
        )
    targets, probabilities = _table(
        np.array(pairs), np.array(values), config.encoder_vocabulary_size
    )
    # The last column is the target token with the same text.
    for source, name in enumerate(source_names):
        if name in target_ids:
            targets[source, _BEST] = target_ids[name]
            probabilities[source, _BEST] = _SAME_TEXT
    return kt.OutputVocabulary.shortlist(targets, probabilities, always, size)


def copy_shortlist(path, copy):
    """Copies a shortlist file, compressed."""
    with gzip.open(copy, "wt", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{line}\n" for line in read_lines(path, True))


def _names(tokenizer):
    vocabulary = sentencepiece.SentencePieceProcessor(
        model_proto=tokenizer.proto
    )
    return [*map(vocabulary.IdToPiece, range(tokenizer.vocabulary_size))]


def _ids(names):
    return {name: number for number, name in enumerate(names)}


def _table(pairs, values, source_size):
    """Returns each source's best targets and their probabilities, padded."""
    order = np.lexsort((pairs[:, 1], -values, pairs[:, 0]))
    sources, targets = pairs[order].T
    ranks = np.arange(len(sources)) - np.searchsorted(sources, sources)
    is_kept = ranks < _BEST
    places = sources[is_kept], ranks[is_kept]
    table = np.zeros((source_size, _BEST + 1), np.int32)
    probabilities = np.zeros((source_size, _BEST + 1), np.float32)
    table[places] = targets[is_kept]
    probabilities[places] = values[order][is_kept]
    return table, probabilities
