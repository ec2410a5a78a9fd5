"""The big model: Table 3, last row; section 6.1.

python -m trainers.wmt --preset=big --dataset=wmt14_translate/de-en \
    --source_language=en --target_language=de --model_dir=runs/big

The paper: 300,000 steps, 3.5 days on 8 P100 GPUs, newstest2014 en-de BLEU
28.4, en-fr 41.8 (tokenised, compound-split).
"""

from keras_transformer.presets.base import BASE

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
