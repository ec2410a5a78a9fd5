"""Models for one CPU or for small corpora."""

# The default of `python -m trainers.wmt`, for two CPU cores. 4,000 updates on
# the Tatoeba sentences of bin/demo, with a falling rate in the last 1,400, give
# sacreBLEU 45.54 on its test split (docs/measured/results.md).
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
    "label_smoothing": 0.1,
    "warmup_steps": 1_000,
    "train_steps": 8_000,
    "batch_tokens": 2_048,
    "average_checkpoints": 5,
    "beam_size": 4,
    "alpha": 0.6,
    "max_extra_tokens": 50,
}

TINY_4_1 = TINY | {"num_layers": 4, "num_decoder_layers": 1}
TINY_2_1 = TINY | {"num_decoder_layers": 1}


_PEAK_LEARNING_RATE = 0.005
_WARMUP = 2000
_D_MODEL = 128

# Transformer-Tiny on Multi30k: Wu et al. 2021 (arXiv 2105.14462).
#
# python -m trainers.wmt --preset=multi30k-tiny --dataset=text:multi30k/ \
#     --source_language=en --target_language=de --model_dir=runs/multi30k
#
# Published: 41.02 BLEU on test_2016_flickr en-de (lower-cased, tokenised:
# sacrebleu --tokenize none), 2,568,192 parameters, one GPU. Unlike the original
# Transformer: peak learning rate 0.005, gradient norm clipped at 25, hypotheses
# scored by log-probability / length.
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


# The same model from 37 instead of 66 million tokens: updates of half the size,
# a peak learning rate lower by the square root of that, and a final linear
# cooldown to 0. Measured on test_2016_flickr with packed rows, one training
# each: BLEU 40.53 en-de, published 41.02; 61.83 en-fr, published 61.8
# (docs/measured/results.md).
MULTI30K_TINY_COOLDOWN = {
    **MULTI30K_TINY,
    "learning_rate_scale": 1.77,  # a peak of 0.0035
    "batch_tokens": 4_096,
    "train_steps": 9_000,
    "cooldown_steps": 3_000,
}


# A parser from some 19,000 trees, in one to two hours on 2 CPU cores:
# python -m trainers.parsing --dataset=trees:PREFIX --model_dir=runs/parser
#
# It needs small updates and a falling rate in the last half. Unlike in the
# paper, the decoder gets the encoder's states of the next word, so two decoder
# layers are enough (docs/measured/parsing.md). trainers.parsing sets the ids
# from which words begin; vocabulary_size is that of the source.
PARSING_SMALL = {
    "vocabulary_size": 4_000,
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
    "beam_size": 4,
    "alpha": 0.3,
    "max_extra_tokens": 300,
}
