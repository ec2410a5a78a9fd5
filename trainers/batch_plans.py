"""Which pairs make up which update: the plan that the flags ask for."""

from trainers.length_batches import plan_by_length
from trainers.packed_batches import plan_packed

NAMES = ("length", "pack")


def make_plan(pairs, config, plan):
    """Returns the batches of all epochs.

    Args:
        pairs: TokenPairs.
        config: TransformerConfig, for its budget of tokens.
        plan: TrainingPlan.

    Returns:
        BatchPlan.
    """
    lengths = pairs.source_lengths, pairs.target_lengths
    if plan.batching == "pack":
        return plan_packed(
            *lengths, config.batch_tokens, plan.row_tokens, plan.seed
        )
    return plan_by_length(*lengths, config.batch_tokens, plan.shapes, plan.seed)
