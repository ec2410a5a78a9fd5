"""Plans batches and collates them into arrays.

`make_plan` is the entry point: a plan depends only on lengths, options and
seed, a batch only on plan and step. Does not import other subpackages.
"""

from trainers.batches.by_length import plan_by_length
from trainers.batches.packed import plan_packed

BATCHINGS = ("length", "pack")


def make_plan(pairs, config, options):
    """Returns the BatchPlan for TokenPairs and TrainingOptions."""
    source, target = pairs.source_lengths, pairs.target_lengths
    tokens, seed = config.batch_tokens, options.seed
    if options.batching == "pack":
        return plan_packed(source, target, tokens, options.row_tokens, seed)
    return plan_by_length(source, target, tokens, options.shapes, seed)
