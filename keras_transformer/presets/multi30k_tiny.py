"""Transformer-Tiny on Multi30k: Wu et al. 2021 (arXiv 2105.14462).

python -m trainers.wmt --preset=multi30k-tiny --dataset=text:multi30k/ \
    --source_language=en --target_language=de --model_dir=runs/multi30k

Published: 41.02 BLEU on test_2016_flickr en-de (lower-cased, tokenised:
sacrebleu --tokenize none), 2,568,192 parameters, one GPU.

Where it departs from the paper's formulas: the peak learning rate is set to
0.005, the gradient's norm is clipped at 25, and hypotheses are compared by
log-probability / length.
"""

_PEAK_LEARNING_RATE = 0.005
_WARMUP = 2000
_D_MODEL = 128

MULTI30K_TINY = {
    "vocabulary_size": 9_712,  # a joint byte-pair encoding of 10,000 merges
    "num_layers": 4,
    "d_model": _D_MODEL,
    "d_ff": 256,
    "num_heads": 4,
    "d_k": 32,
    "d_v": 32,
    "dropout": 0.3,
    "label_smoothing": 0.1,
    # The paper's schedule peaks at (d_model * warmup_steps) ** -0.5.
    "learning_rate_scale": _PEAK_LEARNING_RATE * (_D_MODEL * _WARMUP) ** 0.5,
    "warmup_steps": _WARMUP,
    "adam_epsilon": 1e-8,
    "clip_norm": 25.0,
    "train_steps": 8_000,
    "batch_tokens": 8_192,
    "average_checkpoints": 10,
    "beam_size": 5,
    "alpha": 1.0,
    "length_penalty": "power",
}
