"""Lengths of real sentence pairs, where the data is there."""

import functools
import gzip
import pathlib

import numpy as np
import pytest
import sentencepiece

from trainers.data.vocabulary import train_vocabulary

FOLDER = pathlib.Path(__file__).parents[4] / "shared/data/tatoeba_en_de"
# Every so many-eth pair trains the vocabulary.
_SAMPLE = 10


@functools.cache
def lengths():
    """Returns (source, target), int64 [169813], the end ids counted.

    Of 8,000 byte pairs. The test is skipped where there is no data.
    """
    if not FOLDER.exists():
        pytest.skip("../shared/data/tatoeba_en_de is not there")
    sides = [
        gzip.decompress((FOLDER / f"train.{language}.gz").read_bytes())
        .decode()
        .splitlines()
        for language in ("en", "de")
    ]
    sample = [line for side in sides for line in side[::_SAMPLE]]
    pieces = sentencepiece.SentencePieceProcessor(
        model_proto=train_vocabulary(sample, 8_000)
    )
    return tuple(
        np.array([len(ids) + 1 for ids in pieces.encode(side)])
        for side in sides
    )
