"""Plans batches of similar lengths (section 5.1) in few padded shapes.

Cells (pairs of equal lengths) are sorted by the longer side and cut into
strips; within a strip they are sorted by the difference of the sides. Dynamic
programming cuts that order into buckets. Finally each cell moves to the bucket
where it costs least.
"""

import numpy as np

from trainers.batches.batch_plan import (
    BatchPlan,
    Bucket,
    balanced_shape,
    batching_cost,
    max_rows,
)

# With shapes=0: maximum share of padding, and maximum number of shapes.
_AUTO_PADDING = 0.03
_AUTO_SHAPES = 128
# Numbers of strips to try, per shape.
_STRIPS_PER_SHAPE = 0.5 ** np.arange(0, 2.5, 0.25)
# Rare lengths are merged until about this many cells are left: dynamic
# programming takes time and memory of their square.
_MAX_CELLS = 1000


def plan_by_length(source_lengths, target_lengths, batch_tokens, shapes, seed):
    """Returns a BatchPlan of pairs of similar lengths, one pair per row.

    Lengths are int [pairs], 1 to `batch_tokens`, the maximum number of
    positions of a batch per side. `shapes` is the maximum number of batch
    shapes; 0 for the fewest with about 3 % of padding, at most 128.
    """
    cells, cell_of_pair = _count_cells(
        source_lengths, target_lengths, batch_tokens
    )
    # Pairs of equal lengths are assigned to batches at random.
    order = np.random.default_rng(seed).permutation(len(cell_of_pair))
    order = order[np.argsort(cell_of_pair[order], kind="stable")]
    bucket_of = np.repeat(_buckets(cells, batch_tokens, shapes), cells[0])
    order = order[np.argsort(bucket_of, kind="stable")]
    ends = np.cumsum(np.bincount(bucket_of))[:-1]
    buckets = []
    for pairs in np.split(order, ends):
        longest = source_lengths[pairs].max(), target_lengths[pairs].max()
        starts = np.arange(len(pairs) + 1)
        buckets.append(Bucket.balanced(pairs, starts, *longest, batch_tokens))
    return BatchPlan(buckets, seed)


def _count_cells(source_lengths, target_lengths, batch_tokens):
    """Returns cells, int64 [3, n], and the lengths of pairs as numbers."""
    width = int(target_lengths.max()) + 1
    lengths, lengths_of_pair, counts = np.unique(
        source_lengths.astype(np.int64) * width + target_lengths,
        return_inverse=True,
        return_counts=True,
    )
    source, target = np.divmod(lengths, width)
    # Pairs that fill batches make one cell (pairs, source and target length),
    # the remainder another, which may join other lengths.
    remainder = counts % max_rows(source, target, batch_tokens)
    pairs = np.stack([counts - remainder, remainder], axis=1).ravel()
    cells = np.stack([pairs, source.repeat(2), target.repeat(2)])
    return cells[:, pairs > 0], lengths_of_pair


def _buckets(cells, batch_tokens, shapes):
    """Returns the bucket of each cell, int64 [n], numbered from 0."""
    pairs, source, target = cells
    limit = shapes or _AUTO_SHAPES
    tokens = (pairs * (source + target)).sum()
    max_positions = 0 if shapes else tokens / (1 - _AUTO_PADDING)
    by_longer = np.lexsort([source + target, np.maximum(source, target)])
    strips = list(optimal_segments(cells, by_longer, limit, batch_tokens))
    candidates = [_fewest_buckets(strips, cells, batch_tokens, max_positions)]
    counts = np.rint(limit * _STRIPS_PER_SHAPE).astype(int)
    for count in np.unique(np.clip(counts, 1, len(strips))):
        strip_of = strips[count - 1]
        # Alternating directions: each strip begins where the last one ended.
        across = (source - target) * (-1) ** strip_of
        order = np.lexsort([across, strip_of])
        segments = optimal_segments(cells, order, limit, batch_tokens)
        candidates.append(
            _fewest_buckets(segments, cells, batch_tokens, max_positions)
        )
    bucket_of = min(candidates, key=lambda each: each[:2])[-1]
    return _move_cells(cells, bucket_of, batch_tokens)


def _fewest_buckets(candidates, cells, batch_tokens, max_positions):
    """Returns number (inf above `max_positions`), cost, bucket of cells."""
    for bucket_of in candidates:
        buckets = _merge_cells(cells, bucket_of)
        shapes = balanced_shape(*buckets, batch_tokens)
        number = len(shapes.rows)
        batches = -(-buckets[0] // shapes.rows)
        if (batches * shapes.num_positions).sum() <= max_positions:
            break
    else:
        number = np.inf
    return number, batching_cost(*buckets, batch_tokens).sum(), bucket_of


def _move_cells(cells, bucket_of, batch_tokens):
    """Moves each cell, once, to the bucket where it costs least."""
    bucket_of = bucket_of.copy()
    buckets = _merge_cells(cells, bucket_of)
    cost = batching_cost(*buckets, batch_tokens)
    for number, old in enumerate(bucket_of.tolist()):
        others = bucket_of == old
        others[number] = False
        # No bucket may become empty.
        if not others.any():
            continue
        pairs, source, target = cells[:, others]
        rest = pairs.sum(), source.max(), target.max()
        cell = cells[:, [number]]
        merged = np.vstack(
            [buckets[:1] + cell[:1], np.maximum(buckets[1:], cell[1:])]
        )
        merged_cost = batching_cost(*merged, batch_tokens)
        saved = cost[old] - batching_cost(*rest, batch_tokens)
        growth = merged_cost - cost
        growth[old] = saved
        new = growth.argmin()
        if growth[new] < saved:
            bucket_of[number] = new
            buckets[:, old], buckets[:, new] = rest, merged[:, new]
            cost[old] -= saved
            cost[new] = merged_cost[new]
    return bucket_of


def optimal_segments(cells, order, limit, batch_tokens):
    """Yields the optimal cuts of cells into 1 to `limit` segments.

    Dynamic programming: the best k segments up to a cell are a last segment
    and the best k - 1 up to its beginning. Yields the segment of each cell,
    int64 [n]. `cells` is int64 [3, n]: pairs, source and target length;
    `order`, int64 [n], has the indices of the cells in sequence.
    """
    group_of = np.empty_like(order)
    group_of[order] = _group_neighbors(cells[:, order])
    cost = _segment_costs(_merge_cells(cells, group_of), batch_tokens)
    # Least cost of the groups before each; beginning of the last segment.
    before, begins = np.append(0, np.full(len(cost), np.inf)), []
    for _ in range(min(limit, len(cost))):
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


def _group_neighbors(cells):
    """Returns the group of each cell, int64 [n], numbered from 0."""
    pairs, source, target = cells
    if len(pairs) <= _MAX_CELLS:
        return np.arange(len(pairs))
    # With cube roots, frequent lengths stay alone and rare ones are merged.
    weight = np.cumsum(np.cbrt(pairs * (source + target)))
    part = weight * _MAX_CELLS // weight[-1]
    return np.unique(part, return_inverse=True)[1]


def _merge_cells(cells, group_of):
    """Returns pairs, longest source and longest target of each group."""
    groups = np.zeros([3, group_of.max() + 1], np.int64)
    np.add.at(groups[0], group_of, cells[0])
    np.maximum.at(groups[1], group_of, cells[1])
    np.maximum.at(groups[2], group_of, cells[2])
    return groups


def _segment_costs(cells, batch_tokens):
    """Returns the cost of cells i to j at [j, i], float64 [n, n]."""
    costs = np.full([cells.shape[1]] * 2, np.inf)
    for first in range(len(costs)):
        pairs, *sides = cells[:, first:]
        longest = [np.maximum.accumulate(side) for side in sides]
        costs[first:, first] = batching_cost(
            np.cumsum(pairs), *longest, batch_tokens
        )
    return costs
