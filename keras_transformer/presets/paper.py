"""The paper's base and big models: Table 3, first and last row; section 6.1.

python -m trainers.wmt --preset=base --dataset=wmt14_translate/de-en \
    --source_language=en --target_language=de --model_dir=runs/base

The paper, on 8 P100 GPUs: base 100,000 steps in 12 hours, newstest2014 en-de
BLEU 27.3; big 300,000 steps in 3.5 days, en-de 28.4, en-fr 41.8 (tokenised,
compound-split).
"""

BASE = {
    "vocabulary_size": 37_000,  # section 5.1, shared byte-pair encoding
    "num_layers": 6,
    "d_model": 512,
    "d_ff": 2048,
    "num_heads": 8,
    "d_k": 64,
    "d_v": 64,
    "dropout": 0.1,  # section 5.4
    "label_smoothing": 0.1,  # section 5.4
    "warmup_steps": 4000,  # section 5.3
    "train_steps": 100_000,  # section 5.2
    "batch_tokens": 25_000,  # section 5.1
    "average_checkpoints": 5,  # section 6.1
    "beam_size": 4,  # section 6.1
    "alpha": 0.6,  # section 6.1
    "max_output_extra": 50,  # section 6.1
}


BIG = BASE | {
    "d_model": 1024,
    "d_ff": 4096,
    "num_heads": 16,
    "dropout": 0.3,
    "train_steps": 300_000,
    "average_checkpoints": 20,  # section 6.1
}

BIG_ENFR = BIG | {
    "vocabulary_size": 32_000,  # section 5.1, word pieces
    "dropout": 0.1,  # section 6.1: instead of 0.3
}
