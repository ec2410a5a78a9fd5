"""Plans batches and collates them into arrays.

`plan_batches` and `plan_groups` are the entry points: a plan depends only on
lengths, options and seed, a batch only on plan and step. Does not import other
subpackages.
"""

from trainers.batches.by_length import plan_by_length
from trainers.batches.packed import plan_packed
from trainers.batches.planned_batches import GroupedBatches, PlannedBatches

BATCHINGS = ("length", "pack")


def plan_batches(pairs, config, options):
    """Returns the PlannedBatches of TokenPairs for TrainingOptions."""
    source, target = pairs.source_lengths, pairs.target_lengths
    tokens, seed = config.batch_tokens, options.seed
    if options.batching == "pack":
        plan = plan_packed(source, target, tokens, options.row_tokens, seed)
    else:
        plan = plan_by_length(source, target, tokens, options.shapes, seed)
    return PlannedBatches(pairs, plan)


def plan_groups(groups, config, options):
    """Returns the GroupedBatches of PairGroups for TrainingOptions."""
    return GroupedBatches(
        groups,
        lambda pairs: plan_batches(pairs, config, options),
        options.batching == "pack",
        config.batch_tokens,
        options.seed,
    )
