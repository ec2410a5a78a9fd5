"""The base model: Table 3, first row; sections 5 and 6.1.

python -m trainers.wmt --preset=base --dataset=wmt14_translate/de-en \
    --source_language=en --target_language=de --model_dir=runs/base

The paper: 100,000 steps, 12 hours on 8 P100 GPUs, newstest2014 en-de BLEU
27.3 (tokenised, compound-split).
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
