"""Named configurations: dicts of TransformerConfig fields, in PRESETS.

Other fields have the defaults of TransformerConfig, those of the base model.
"""

import typing

# The paper's models: base and big (section 6.1), Table 3, parsing (6.3). On 8
# P100 GPUs: base 100,000 steps in 12 hours, newstest2014 en-de BLEU 27.3; big
# 300,000 steps in 3.5 days, en-de 28.4, en-fr 41.8 (tokenized, compound-split).
BASE = {"vocabulary_size": 37_000}  # section 5.1, shared byte-pair encoding

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

# The rows of Table 3 except base and big, under the table's row letters. No row
# averages checkpoints (Table 3's caption).
_ROW = BASE | {"average_checkpoints": 0}

TABLE3: dict[str, dict[str, typing.Any]] = {
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

# Constituency parsing, Table 4: F1 on WSJ section 23 is 91.3 from WSJ alone,
# 92.7 semi-supervised. Values that the paper does not specify are from the
# authors' code: d_ff, heads, dropout, warm-up, learning-rate scale, embeddings.
PARSING = BASE | {
    "vocabulary_size": 16_000,  # section 6.3
    "stop_criterion": "exact",
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

# The default of `python -m trainers.wmt`, for two CPU cores.
TINY = {
    "vocabulary_size": 4_000,
    "num_layers": 2,
    "d_model": 128,
    "d_ff": 512,
    "num_heads": 4,
    "d_k": 32,
    "d_v": 32,
    # So small a model under-fits in few epochs: after 2,000 updates dev
    # perplexity was 4.90 without dropout and 5.03 with 0.1.
    "dropout": 0.0,
    "warmup_steps": 1_000,
    "train_steps": 8_000,
    "batch_tokens": 2_048,
}

# Transformer-Tiny on Multi30k: Wu et al. 2021 (arXiv 2105.14462), 41.02 BLEU on
# test_2016_flickr en-de (lower-cased, tokenized), 2,568,192 parameters.
MULTI30K_TINY = {
    "vocabulary_size": 9_712,  # a joint byte-pair encoding of 10,000 merges
    "num_layers": 4,
    "d_model": 128,
    "d_ff": 256,
    "num_heads": 4,
    "d_k": 32,
    "d_v": 32,
    "dropout": 0.3,
    # The peak over that of the paper's schedule.
    "learning_rate_scale": 0.005 * (128 * 2000) ** 0.5,
    "warmup_steps": 2_000,
    "adam_epsilon": 1e-8,
    "clip_norm": 25.0,
    "train_steps": 8_000,
    "batch_tokens": 8_192,
    "average_checkpoints": 10,
    "beam_size": 5,
    "alpha": 1.0,
    "length_penalty": "power",
}

# The same model from 37 instead of 66 million tokens: updates of half the size,
# a peak learning rate lower by the square root of that, and a final linear
# cooldown to 0 (docs/measured/results.md).
MULTI30K_TINY_COOLDOWN = {
    **MULTI30K_TINY,
    "learning_rate_scale": 1.77,  # a peak of 0.0035
    "batch_tokens": 4_096,
    "train_steps": 9_000,
    "cooldown_steps": 3_000,
}

# A parser from some 19,000 trees, in one to two hours on 2 CPU cores
# (docs/measured/parsing.md). trainers.parsing sets the ids from which words
# begin; vocabulary_size is that of the source.
PARSING_SMALL = {
    "vocabulary_size": 4_000,
    "stop_criterion": "exact",
    "num_layers": 4,
    "num_decoder_layers": 2,
    "d_model": 192,
    "d_ff": 768,
    "num_heads": 4,
    "d_k": 48,
    "d_v": 48,
    "positions": "next-word",
    "first_source_word_id": 1,
    "first_target_word_id": 1,
    "share_embeddings": "none",
    "dropout": 0.2,
    "warmup_steps": 800,
    "cooldown_steps": 4_000,
    "train_steps": 8_000,
    "batch_tokens": 2_048,
    "average_checkpoints": 0,  # the rate falls in its place
    "alpha": 0.3,
    "max_extra_tokens": 300,
}

# The sizes of student.tiny.yml and student.base.yml, from which Firefox's
# translation models are trained (github.com/mozilla/translations, in
# pipeline/train/configs/model), with what export.bergamot needs. Their decoders
# are recurrent (SSRU), these are the paper's.
FIREFOX_TINY = {
    "vocabulary_size": 32_000,
    "num_layers": 6,
    "num_decoder_layers": 2,
    "d_model": 256,
    "d_ff": 1536,
    "num_heads": 8,
    "d_k": 32,
    "d_v": 32,
    "norm": "post",
    "sinusoid_rates": "marian",
}

FIREFOX_BASE = FIREFOX_TINY | {
    "d_model": 512,
    "d_ff": 2048,
    "d_k": 64,
    "d_v": 64,
}

PRESETS: dict[str, dict[str, typing.Any]] = {
    "base": BASE,
    "big": BIG,
    "big-enfr": BIG_ENFR,
    **TABLE3,
    # Shallow decoders decode faster: an encoder runs once per sentence, a
    # decoder once per token. base-12-1 has the layer counts of Kasai et al.
    # 2021, arXiv 2006.10369, who train on translations of a larger model.
    # --init_layers_from starts from a model with other layer counts.
    "base-12-1": BASE | {"num_layers": 12, "num_decoder_layers": 1},
    "base-6-2": BASE | {"num_decoder_layers": 2},
    "tiny": TINY,
    "tiny-4-1": TINY | {"num_layers": 4, "num_decoder_layers": 1},
    "tiny-2-1": TINY | {"num_decoder_layers": 1},
    "multi30k-tiny": MULTI30K_TINY,
    "multi30k-tiny-cooldown": MULTI30K_TINY_COOLDOWN,
    "firefox-tiny": FIREFOX_TINY,
    "firefox-base": FIREFOX_BASE,
    "parsing": PARSING,
    "parsing-semi": PARSING | {"vocabulary_size": 32_000},
    "parsing-small": PARSING_SMALL,
}
