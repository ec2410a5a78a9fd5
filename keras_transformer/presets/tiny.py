"""A small model for two CPU cores: the default of `python -m trainers.wmt`."""

TINY = {
    "vocabulary_size": 4_000,
    "num_layers": 2,
    "d_model": 128,
    "d_ff": 512,
    "num_heads": 4,
    "d_k": 32,
    "d_v": 32,
    "dropout": 0.1,
    "label_smoothing": 0.1,
    "warmup_steps": 1000,
    "train_steps": 20_000,
    "batch_tokens": 4_096,
    "average_checkpoints": 5,
    "beam_size": 4,
    "alpha": 0.6,
    "max_output_extra": 50,
}
