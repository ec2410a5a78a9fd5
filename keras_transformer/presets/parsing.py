"""Constituency parsing: section 6.3 and Table 4.

The models of that section as configurations; no command here reads treebanks.

The paper: 4 layers of width 1024; F1 91.3 on WSJ section 23 from WSJ alone,
92.7 semi-supervised. What it leaves open follows the authors' released code:
d_ff 2048, 8 heads, attention and residual dropout 0.2, warm-up 16,000, five
times the learning-rate formula, embeddings not shared.
"""

from keras_transformer.presets.paper import BASE

PARSING = BASE | {
    "vocabulary_size": 16_000,  # section 6.3
    "num_layers": 4,
    "d_model": 1024,
    "d_k": 128,
    "d_v": 128,
    "dropout": 0.2,
    "attention_dropout": 0.2,
    "learning_rate_scale": 5.0,
    "warmup_steps": 16_000,
    "share_embeddings": "none",
    "beam_size": 21,  # section 6.3
    "alpha": 0.3,  # section 6.3
    "max_output_extra": 300,  # section 6.3
}

PARSING_SEMI = PARSING | {"vocabulary_size": 32_000}
