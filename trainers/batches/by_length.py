"""Plans batches of similar lengths (section 5.1) in few padded shapes.

Cells (pairs of equal lengths) are sorted by the longer side and cut into
strips; within a strip they are sorted by the difference of the sides. Dynamic
programming cuts that order into buckets. Finally each cell moves to the bucket
where it costs least.
"""

from collections.abc import Iterator

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
# Ratios of strips to shapes to try.
_STRIPS_PER_SHAPE = 0.5 ** np.arange(0, 2.5, 0.25)
# Rare lengths are merged until about this many cells remain: dynamic
# programming takes time and memory of their square.
_MAX_CELLS = 1000


def plan_by_length(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    batch_tokens: int,
    shapes: int,
    seed: int,
) -> BatchPlan:
    """Returns a BatchPlan of pairs of similar lengths, one pair per row.

    Lengths are int [pairs], 1 to `batch_tokens`, the maximum number of
    positions of a batch per side. `shapes` is the maximum number of batch
    shapes; 0 for the fewest with about 3 % of padding, at most 128.
    """
    cells, length_ids = _count_cells(
        source_lengths, target_lengths, batch_tokens
    )
    # Pairs of equal lengths are assigned to batches at random.
    order = np.random.default_rng(seed).permutation(len(length_ids))
    order = order[np.argsort(length_ids[order], kind="stable")]
    cell_buckets = _assign_buckets(cells, batch_tokens, shapes)
    bucket_ids = np.repeat(cell_buckets, cells[0])
    order = order[np.argsort(bucket_ids, kind="stable")]
    ends = np.cumsum(np.bincount(bucket_ids))[:-1]
    buckets = []
    for indices in np.split(order, ends):
        longest = source_lengths[indices].max(), target_lengths[indices].max()
        starts = np.arange(len(indices) + 1)
        buckets.append(Bucket.balanced(indices, starts, longest, batch_tokens))
    return BatchPlan(buckets, seed)


def _count_cells(source_lengths, target_lengths, batch_tokens):
    """Returns cells, int64 [3, n], and an id of each pair's lengths."""
    width = int(target_lengths.max()) + 1
    lengths, length_ids, counts = np.unique(
        source_lengths.astype(np.int64) * width + target_lengths,
        return_inverse=True,
        return_counts=True,
    )
    source, target = np.divmod(lengths, width)
    # Pairs that fill batches are one cell (pairs, source and target length),
    # the remainder is another, which may join other lengths.
    remainder = counts % max_rows(source, target, batch_tokens)
    pairs = np.stack([counts - remainder, remainder], axis=1).ravel()
    cells = np.stack([pairs, source.repeat(2), target.repeat(2)])
    return cells[:, pairs > 0], length_ids


def _assign_buckets(cells, batch_tokens, shapes):
    """Returns the index of each cell's bucket, int64 [n]."""
    pairs, source, target = cells
    limit = shapes or _AUTO_SHAPES
    tokens = (pairs * (source + target)).sum()
    max_positions = 0 if shapes else tokens / (1 - _AUTO_PADDING)
    order = np.lexsort([source + target, np.maximum(source, target)])
    strips = list(optimal_segments(cells, order, limit, batch_tokens))
    candidates = [_select_buckets(strips, cells, batch_tokens, max_positions)]
    counts = np.rint(limit * _STRIPS_PER_SHAPE).astype(int)
    for count in np.unique(np.clip(counts, 1, len(strips))):
        strip_ids = strips[count - 1]
        # Alternating directions: each strip begins where the previous one ends.
        difference = (source - target) * (-1) ** strip_ids
        order = np.lexsort([difference, strip_ids])
        segments = optimal_segments(cells, order, limit, batch_tokens)
        candidates.append(
            _select_buckets(segments, cells, batch_tokens, max_positions)
        )
    _, _, bucket_ids = min(candidates, key=lambda each: each[:2])
    return _move_cells(cells, bucket_ids, batch_tokens)


def _select_buckets(candidates, cells, batch_tokens, max_positions):
    """Returns number, cost and ids of the first buckets that fit."""
    for bucket_ids in candidates:
        buckets = _merge_cells(cells, bucket_ids)
        shapes = balanced_shape(*buckets, batch_tokens)
        num_buckets = len(shapes.rows)
        batches = -(-buckets[0] // shapes.rows)
        if (batches * shapes.num_positions).sum() <= max_positions:
            break
    else:
        # The last candidate has the most buckets, the least cost.
        num_buckets = np.inf
    return num_buckets, batching_cost(*buckets, batch_tokens).sum(), bucket_ids


def _move_cells(cells, bucket_ids, batch_tokens):
    """Moves each cell, once, to the bucket where it costs least."""
    bucket_ids = bucket_ids.copy()
    buckets = _merge_cells(cells, bucket_ids)
    cost = batching_cost(*buckets, batch_tokens)
    for index, old in enumerate(bucket_ids.tolist()):
        others = bucket_ids == old
        others[index] = False
        # No bucket may become empty.
        if not others.any():
            continue
        pairs, source, target = cells[:, others]
        rest = pairs.sum(), source.max(), target.max()
        cell = cells[:, [index]]
        merged = np.vstack(
            [buckets[:1] + cell[:1], np.maximum(buckets[1:], cell[1:])]
        )
        merged_cost = batching_cost(*merged, batch_tokens)
        saved = cost[old] - batching_cost(*rest, batch_tokens)
        added = merged_cost - cost
        added[old] = saved
        new = added.argmin()
        if added[new] < saved:
            bucket_ids[index] = new
            buckets[:, old], buckets[:, new] = rest, merged[:, new]
            cost[old] -= saved
            cost[new] = merged_cost[new]
    return bucket_ids


def optimal_segments(
    cells: np.ndarray, order: np.ndarray, limit: int, batch_tokens: int
) -> Iterator[np.ndarray]:
    """Yields the optimal cuts of cells into 1 to `limit` segments.

    Dynamic programming: the best k segments up to a cell are a last segment
    and the best k - 1 up to its beginning. Yields the segment index of each
    cell, int64 [n]. `cells` is int64 [3, n]: pairs, source and target length;
    `order`, int64 [n], has the indices of the cells in sequence.
    """
    group_ids = np.empty_like(order)
    group_ids[order] = _group_neighbors(cells[:, order])
    cost = _segment_costs(_merge_cells(cells, group_ids), batch_tokens)
    # Least cost of the groups before each group.
    least_cost = np.append(0, np.full(len(cost), np.inf))
    # For each number of segments, where the last of them begins.
    last_begins = []
    for _ in range(min(limit, len(cost))):
        total = cost + least_cost[:-1]
        least_cost[1:] = total.min(axis=1)
        last_begins.append(total.argmin(axis=1))
        is_first, end = np.zeros(len(cost), np.int64), len(cost)
        for begins in reversed(last_begins):
            end = begins[end - 1]
            is_first[end] = 1
            if not end:
                break
        yield np.cumsum(is_first)[group_ids] - 1


def _group_neighbors(cells):
    """Returns the index of each cell's group, int64 [n]."""
    pairs, source, target = cells
    if len(pairs) <= _MAX_CELLS:
        return np.arange(len(pairs))
    # With cube roots, frequent lengths stay alone and rare ones are merged.
    weights = np.cumsum(np.cbrt(pairs * (source + target)))
    groups = weights * _MAX_CELLS // weights[-1]
    return np.unique(groups, return_inverse=True)[1]


def _merge_cells(cells, group_ids):
    """Returns pairs, longest source and longest target of each group."""
    groups = np.zeros([3, group_ids.max() + 1], np.int64)
    np.add.at(groups[0], group_ids, cells[0])
    np.maximum.at(groups[1], group_ids, cells[1])
    np.maximum.at(groups[2], group_ids, cells[2])
    return groups


def _segment_costs(cells, batch_tokens):
    """Returns the cost of a segment of cells i to j at [j, i], [n, n]."""
    costs = np.full([cells.shape[1]] * 2, np.inf)
    for first in range(len(costs)):
        pairs, *sides = cells[:, first:]
        longest = [np.maximum.accumulate(side) for side in sides]
        costs[first:, first] = batching_cost(
            np.cumsum(pairs), *longest, batch_tokens
        )
    return costs
