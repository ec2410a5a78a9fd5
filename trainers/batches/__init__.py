"""Plans batches and collates them into arrays.

`make_plan` is the way in: a plan is a pure function of lengths and seed, and
each of its batches one of the step. Does not import other subpackages.
"""

from trainers.batches.by_length import plan_by_length
from trainers.batches.packed import plan_packed

BATCHINGS = ("length", "pack")


def make_plan(pairs, config, plan):
    """Returns the BatchPlan of a training.

    Args:
        pairs: TokenPairs.
        config: TransformerConfig, for its `batch_tokens`.
        plan: TrainingPlan.
    """
    lengths = pairs.source_lengths, pairs.target_lengths
    if plan.batching == "pack":
        return plan_packed(
            *lengths, config.batch_tokens, plan.row_tokens, plan.seed
        )
    return plan_by_length(*lengths, config.batch_tokens, plan.shapes, plan.seed)
