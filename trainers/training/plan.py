"""What a training does besides what the model's configuration says."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """How one command trains; see the flags of `trainers.wmt`.

    Attributes:
        precision: Keras dtype policy.
        jit: whether XLA compiles loss and gradient; None for where there are
            GPUs.
        seed: of weights, dropout and the data's order.
        max_tokens: pairs with a longer side are left out.
        batching: "length" or "pack".
        shapes: how many padded lengths batches may have; 0 for as many as
            pay off.
        row_tokens: positions a row of packed pairs has.
        accumulate: micro-batches of an update.
        ema: momentum of an average of the weights; 0 for none.
        train_minutes: limit from the first update on; 0 is none.
        patience: measures of dev without a better one before training
            stops; 0 is no limit.
        report_steps: updates between reports.
        dev_steps: updates between measures of the dev split.
        dev_bleu_sentences: how many of its sentences are translated each
            time; 0 for none.
        tokenize: name of sacreBLEU's tokeniser for dev BLEU and the test
            split's; None for the target language's own.
        attention_steps: updates between pictures of attention; None for
            `dev_steps`, 0 for none.
        attention_sentences: how many dev sentences they show.
        checkpoint_steps: updates between checkpoints; 0 is none.
        checkpoint_minutes: minutes between checkpoints; 0 is none.
        keep_checkpoints: how many are kept.
        keep_best: whether the best of dev becomes the final weights.
    """

    precision: str
    jit: bool | None
    seed: int
    max_tokens: int
    batching: str
    shapes: int
    row_tokens: int
    accumulate: int
    ema: float
    train_minutes: float
    patience: int
    report_steps: int
    dev_steps: int
    dev_bleu_sentences: int
    tokenize: str | None
    attention_steps: int | None
    attention_sentences: int
    checkpoint_steps: int
    checkpoint_minutes: float
    keep_checkpoints: int
    keep_best: bool

    @property
    def saves_best(self):
        """Whether a checkpoint of the best of dev is kept."""
        return self.keep_best or bool(self.dev_bleu_sentences)
