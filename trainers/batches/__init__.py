"""Which sentence pairs make up which update, and those as arrays.

`make_plan` is the way in. Lengths come in, batches go out, a pure function of
seed and step. This room imports no other.
"""

from trainers.batches.by_length import plan_by_length
from trainers.batches.packed import plan_packed

BATCHINGS = ("length", "pack")


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
