"""Batches by approximate length (section 5.1), in few shapes."""

import numpy as np

from trainers.batch_plan import (
    BatchPlan,
    BatchShape,
    Bucket,
    balanced_rows,
    most_rows,
)
from trainers.box_merging import merge_boxes
from trainers.length_boxes import Boxes, split_boxes

# Boxes that are merged into buckets: several times as many as there may be
# buckets, and few enough to compare each with each.
_BOXES = 400


def plan_by_length(source_lengths, target_lengths, batch_tokens, shapes, seed):
    """Sorts pairs into buckets of similar source and target lengths.

    Args:
        source_lengths: int [pairs], at least 1 each.
        target_lengths: int [pairs], at least 1 each.
        batch_tokens: positions a batch has on each side, at most; a batch
            has at least 8 rows all the same.
        shapes: how many shapes batches may have; 0 takes as few as keep
            padding at about 3 %, at most 128.
        seed: of the order in which batches come, at least 0.

    Returns:
        BatchPlan of one pair a row.
    """
    cells, cell_of = _cells(source_lengths, target_lengths)
    box_of_cell = split_boxes(cells, _BOXES)
    boxes = _whole_batches_apart(cells.grouped(box_of_cell), batch_tokens)
    real = int(source_lengths.sum()) + int(target_lengths.sum())
    bucket_of_box = merge_boxes(boxes, batch_tokens, shapes, real)
    # Which pairs of a box make its whole batches is left to chance.
    order = np.random.default_rng(seed).permutation(len(cell_of))
    order = order[np.argsort(box_of_cell[cell_of[order]], kind="stable")]
    bucket_of = np.repeat(bucket_of_box, boxes.pairs)
    by_bucket = order[np.argsort(bucket_of, kind="stable")]
    ends = np.cumsum(np.bincount(bucket_of))[:-1]
    return BatchPlan(
        [
            _bucket(pairs, source_lengths, target_lengths, batch_tokens)
            for pairs in np.split(by_bucket, ends)
        ],
        seed,
    )


def _cells(source_lengths, target_lengths):
    """Returns Boxes of one length a side, and that of each pair."""
    width = int(target_lengths.max()) + 1
    cells, cell_of, counts = np.unique(
        source_lengths.astype(np.int64) * width + target_lengths,
        return_inverse=True,
        return_counts=True,
    )
    return Boxes(counts, *np.divmod(cells, width)), cell_of


def _whole_batches_apart(boxes, batch_tokens):
    """Cuts each box in two: whole batches, which want no company, and rest."""
    rest = boxes.pairs % most_rows(boxes.source, boxes.target, batch_tokens)
    pairs = np.stack([boxes.pairs - rest, rest], axis=1).ravel()
    halves = Boxes(
        pairs, np.repeat(boxes.source, 2), np.repeat(boxes.target, 2)
    )
    return halves.at(pairs > 0)


def _bucket(pairs, source_lengths, target_lengths, batch_tokens):
    source = int(source_lengths[pairs].max())
    target = int(target_lengths[pairs].max())
    rows = balanced_rows(len(pairs), most_rows(source, target, batch_tokens))
    shape = BatchShape(int(rows), source, target)
    return Bucket(pairs, np.arange(len(pairs) + 1), shape)
