"""What a training does besides what the model's configuration says."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """How one command trains; see the flags of `trainers.wmt`.

    Attributes:
        strategy: name of the tf.distribute strategy.
        precision: Keras dtype policy.
        jit: whether XLA compiles loss and gradient.
        seed: of weights, dropout and the data's order.
        max_tokens: pairs with a longer side are left out.
        shapes: how many padded lengths batches may have.
        train_minutes: limit from the first update on; 0 is none.
        report_steps: updates between reports.
        dev_steps: updates between measures of dev loss.
        checkpoint_steps: updates between checkpoints; 0 is none.
        checkpoint_minutes: minutes between checkpoints; 0 is none.
        keep_checkpoints: how many are kept.
    """

    strategy: str
    precision: str
    jit: bool
    seed: int
    max_tokens: int
    shapes: int
    train_minutes: float
    report_steps: int
    dev_steps: int
    checkpoint_steps: int
    checkpoint_minutes: float
    keep_checkpoints: int
