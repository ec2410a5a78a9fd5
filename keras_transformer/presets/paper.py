"""The paper's models: base and big (section 6.1), Table 3, parsing (6.3).

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
    "max_extra_tokens": 50,  # section 6.1
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

# The rows of Table 3 except base and big, under the table's row letters.
#
# python -m trainers.table3 --rows=A1,B16 --dataset=wmt14_translate/de-en \
#     --source_language=en --target_language=de --output_dir=runs/table3
#
# No row averages checkpoints (Table 3's caption).
_ROW = BASE | {"average_checkpoints": 0}

TABLE3 = {
    "A1": _ROW | {"num_heads": 1, "d_k": 512, "d_v": 512},
    "A4": _ROW | {"num_heads": 4, "d_k": 128, "d_v": 128},
    "A16": _ROW | {"num_heads": 16, "d_k": 32, "d_v": 32},
    "A32": _ROW | {"num_heads": 32, "d_k": 16, "d_v": 16},
    "B16": _ROW | {"d_k": 16},
    "B32": _ROW | {"d_k": 32},
    "C-n2": _ROW | {"num_layers": 2},
    "C-n4": _ROW | {"num_layers": 4},
    "C-n8": _ROW | {"num_layers": 8},
    "C-d256": _ROW | {"d_model": 256, "d_k": 32, "d_v": 32},
    "C-d1024": _ROW | {"d_model": 1024, "d_k": 128, "d_v": 128},
    "C-ff1024": _ROW | {"d_ff": 1024},
    "C-ff4096": _ROW | {"d_ff": 4096},
    "D-drop0": _ROW | {"dropout": 0.0},
    "D-drop2": _ROW | {"dropout": 0.2},
    "D-ls0": _ROW | {"label_smoothing": 0.0},
    "D-ls2": _ROW | {"label_smoothing": 0.2},
    "E-learned": _ROW | {"positions": "learned"},
}

# Constituency parsing, Table 4: python -m trainers.parsing --preset=parsing.
# F1 on WSJ section 23 is 91.3 from WSJ alone, 92.7 semi-supervised. Values that
# the paper does not specify follow the authors' released code: d_ff, heads,
# dropout, warm-up, learning-rate scale and unshared embeddings.
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
    "max_extra_tokens": 300,  # section 6.3
}

PARSING_SEMI = PARSING | {"vocabulary_size": 32_000}

# Deep encoders with shallow decoders, which decode faster: an encoder runs once
# per sentence, a decoder once per token. BASE_12_1 has the layer counts of
# Kasai et al. 2021, arXiv 2006.10369, who train on translations of a larger
# model. --init_layers_from starts from a model with other layer counts.
BASE_12_1 = BASE | {"num_layers": 12, "num_decoder_layers": 1}
BASE_6_2 = BASE | {"num_decoder_layers": 2}
