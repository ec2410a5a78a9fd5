"""Options and configuration of a tiny training."""

import dataclasses

from tests.trainers.helpers import minute_config
from trainers.training.training_options import TrainingOptions

OPTIONS = TrainingOptions(
    precision="float32",
    jit=False,
    seed=1,
    max_tokens=100,
    batching="length",
    shapes=3,
    row_tokens=128,
    accumulate=1,
    ema=0.0,
    train_minutes=0,
    patience=0,
    report_steps=100,
    dev_steps=100,
    dev_bleu_sentences=0,
    dev_f1_sentences=0,
    tokenize="13a",
    attention_steps=0,
    attention_sentences=2,
    sample_minutes=0.0,
    checkpoint_steps=0,
    checkpoint_minutes=0,
    keep_checkpoints=5,
    keep_best=False,
)
CONFIG = minute_config(vocabulary_size=64)


def changed(**changes) -> TrainingOptions:
    return dataclasses.replace(OPTIONS, **changes)
