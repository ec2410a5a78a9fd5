"""Batches by approximate length (section 5.1), in few shapes.

Pairs are put in order of their lengths, and that is cut into buckets where it
costs least. An order by the longer side leaves the shorter to chance: so it is
cut into strips first, and in each the pairs then go from sources longer than
their targets to shorter ones. What costs less in another bucket then moves.
"""

import numpy as np

from trainers.batches.batch_plan import (
    BatchPlan,
    Bucket,
    balanced_shape,
    batching_cost,
    max_rows,
)

# With free shapes, as few as keep to this share of padding; but no more of
# them than one likes to compile.
_FREE_PADDING = 0.03
_FREE_SHAPES = 128
# Numbers of strips that are tried, for each shape there may be.
_STRIPS_A_SHAPE = 0.5 ** np.arange(0, 2.5, 0.25)
# Rare lengths are joined until about so many are left: time and memory grow
# with their square.
_MOST_CELLS = 1000


def plan_by_length(source_lengths, target_lengths, batch_tokens, shapes, seed):
    """Sorts pairs into buckets of similar source and target lengths.

    Args:
        source_lengths: int [pairs], at least 1 each, at most `batch_tokens`.
        target_lengths: the same.
        batch_tokens: positions a batch has on each side, at most.
        shapes: how many shapes batches may have; 0 takes as few as keep
            padding at about 3 %, at most 128.
        seed: of the order in which batches come, at least 0.

    Returns:
        BatchPlan of one pair a row.
    """
    cells, lengths_of = _cells(source_lengths, target_lengths, batch_tokens)
    # Which pairs of a length make its whole batches is left to chance.
    order = np.random.default_rng(seed).permutation(len(lengths_of))
    order = order[np.argsort(lengths_of[order], kind="stable")]
    bucket_of = np.repeat(_buckets(cells, batch_tokens, shapes), cells[0])
    order = order[np.argsort(bucket_of, kind="stable")]
    ends = np.cumsum(np.bincount(bucket_of))[:-1]
    buckets = []
    for pairs in np.split(order, ends):
        longest = source_lengths[pairs].max(), target_lengths[pairs].max()
        starts = np.arange(len(pairs) + 1)
        buckets.append(Bucket.balanced(pairs, starts, *longest, batch_tokens))
    return BatchPlan(buckets, seed)


def _cells(source_lengths, target_lengths, batch_tokens):
    """Counts the pairs of each two lengths.

    Returns:
        int64 [3, n], pairs, source length and target length of each cell;
        int64 [pairs], a number for the two lengths of each pair, in the order
        of the cells. Whole batches of two lengths are one cell and what is
        left is another: that alone may want company.
    """
    width = int(target_lengths.max()) + 1
    lengths, lengths_of, counts = np.unique(
        source_lengths.astype(np.int64) * width + target_lengths,
        return_inverse=True,
        return_counts=True,
    )
    source, target = np.divmod(lengths, width)
    left = counts % max_rows(source, target, batch_tokens)
    pairs = np.stack([counts - left, left], axis=1).ravel()
    cells = np.stack([pairs, source.repeat(2), target.repeat(2)])
    return cells[:, pairs > 0], lengths_of


def _buckets(cells, batch_tokens, shapes):
    """Returns the bucket of each cell, int64 [n], from 0 without a gap."""
    pairs, source, target = cells
    most = shapes or _FREE_SHAPES
    real = (pairs * (source + target)).sum()
    enough = 0 if shapes else real / (1 - _FREE_PADDING)
    by_longer = np.lexsort([source + target, np.maximum(source, target)])
    strips = list(best_runs(cells, by_longer, most, batch_tokens))
    found = [_fewest(strips, cells, batch_tokens, enough)]
    counts = np.rint(most * _STRIPS_A_SHAPE).astype(int)
    for count in np.unique(np.clip(counts, 1, len(strips))):
        strip_of = strips[count - 1]
        # To and fro: each strip begins with what the one before ends with.
        across = (source - target) * (-1) ** strip_of
        order = np.lexsort([across, strip_of])
        runs = best_runs(cells, order, most, batch_tokens)
        found.append(_fewest(runs, cells, batch_tokens, enough))
    bucket_of = min(found, key=lambda each: each[:2])[-1]
    return _moved(cells, bucket_of, batch_tokens)


def _fewest(tried, cells, batch_tokens, enough):
    """Takes the first buckets of few enough positions, or the last there are.

    Returns:
        Their number, infinite where positions are too many; their cost; the
        bucket of each cell.
    """
    for bucket_of in tried:
        buckets = _joined(cells, bucket_of)
        shapes = balanced_shape(*buckets, batch_tokens)
        number = len(shapes.rows)
        if (-(-buckets[0] // shapes.rows) * shapes.positions).sum() <= enough:
            break
    else:
        number = np.inf
    return number, batching_cost(*buckets, batch_tokens).sum(), bucket_of


def _moved(cells, bucket_of, batch_tokens):
    """Moves each cell, once, to the bucket in which it costs least.

    Returns:
        int64 [n], the bucket of each cell; no bucket is left empty.
    """
    bucket_of = bucket_of.copy()
    buckets = _joined(cells, bucket_of)
    cost = batching_cost(*buckets, batch_tokens)
    for number, old in enumerate(bucket_of.tolist()):
        mates = bucket_of == old
        mates[number] = False
        if not mates.any():
            continue
        pairs, source, target = cells[:, mates]
        rest = pairs.sum(), source.max(), target.max()
        cell = cells[:, [number]]
        joined = np.vstack(
            [buckets[:1] + cell[:1], np.maximum(buckets[1:], cell[1:])]
        )
        after = batching_cost(*joined, batch_tokens)
        saved = cost[old] - batching_cost(*rest, batch_tokens)
        growth = after - cost
        growth[old] = saved
        new = growth.argmin()
        if growth[new] < saved:
            bucket_of[number] = new
            buckets[:, old], buckets[:, new] = rest, joined[:, new]
            cost[old] -= saved
            cost[new] = after[new]
    return bucket_of


def best_runs(cells, order, most, batch_tokens):
    """Cuts a sequence of cells into runs of the least cost there is.

    By dynamic programming: the best k runs up to a cell are a last one and the
    best k - 1 up to where that begins.

    Args:
        cells: int64 [3, n], pairs, source length and target length of each.
        order: int64 [n], the cells in their order.
        most: how many runs there may be.
        batch_tokens: positions a batch has on each side, at most.

    Yields:
        int64 [n], the run of each cell, from 0 without a gap: of one run, of
        at most two, and so on.
    """
    group_of = np.empty_like(order)
    group_of[order] = _neighbours(cells[:, order])
    cost = _costs(_joined(cells, group_of), batch_tokens)
    # What all groups before each cost, and where the last run up to it begins.
    before, begins = np.append(0, np.full(len(cost), np.inf)), []
    for _ in range(min(most, len(cost))):
        total = cost + before[:-1]
        before[1:] = total.min(axis=1)
        begins.append(total.argmin(axis=1))
        is_first, end = np.zeros(len(cost), np.int64), len(cost)
        for begin in reversed(begins):
            end = begin[end - 1]
            is_first[end] = 1
            if not end:
                break
        yield np.cumsum(is_first)[group_of] - 1


def _neighbours(cells):
    """Returns the group of each cell, int64 [n], from 0 without a gap."""
    pairs, source, target = cells
    if len(pairs) <= _MOST_CELLS:
        return np.arange(len(pairs))
    # By cube roots, frequent lengths stay alone and rare ones keep some groups.
    weight = np.cumsum(np.cbrt(pairs * (source + target)))
    part = weight * _MOST_CELLS // weight[-1]
    return np.unique(part, return_inverse=True)[1]


def _joined(cells, group_of):
    """Returns the pairs of each group, and its longest source and target."""
    groups = np.zeros([3, group_of.max() + 1], np.int64)
    np.add.at(groups[0], group_of, cells[0])
    np.maximum.at(groups[1], group_of, cells[1])
    np.maximum.at(groups[2], group_of, cells[2])
    return groups


def _costs(cells, batch_tokens):
    """Returns the cost of cells i to j at [j, i], float64 [n, n]."""
    costs = np.full([cells.shape[1]] * 2, np.inf)
    for first in range(len(costs)):
        pairs, *sides = cells[:, first:]
        longest = [np.maximum.accumulate(side) for side in sides]
        costs[first:, first] = batching_cost(
            np.cumsum(pairs), *longest, batch_tokens
        )
    return costs
