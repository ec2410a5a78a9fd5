"""The named configurations: sizes, parameter counts, Table 3's changes."""

import dataclasses

import pytest

import keras_transformer as kt
from keras_transformer.presets import PRESETS
from tests.keras_transformer import helpers

AUTHORS_VOCABULARY = 40_960

# Table 3's last column, in millions.
PRINTED_MILLIONS = {
    "base": 65,
    "B16": 58,
    "B32": 60,
    "C-n2": 36,
    "C-n4": 50,
    "C-n8": 80,
    "C-d256": 28,
    "C-d1024": 168,
    "C-ff1024": 53,
    "C-ff4096": 90,
}

# Where a preset differs from another one. Table 3: from base.
_TABLE_3 = {
    "A1": {"num_heads": 1, "d_k": 512, "d_v": 512},
    "A4": {"num_heads": 4, "d_k": 128, "d_v": 128},
    "A16": {"num_heads": 16, "d_k": 32, "d_v": 32},
    "A32": {"num_heads": 32, "d_k": 16, "d_v": 16},
    "B16": {"d_k": 16},
    "B32": {"d_k": 32},
    "C-n2": {"num_layers": 2},
    "C-n4": {"num_layers": 4},
    "C-n8": {"num_layers": 8},
    "C-d256": {"d_model": 256, "d_k": 32, "d_v": 32},
    "C-d1024": {"d_model": 1024, "d_k": 128, "d_v": 128},
    "C-ff1024": {"d_ff": 1024},
    "C-ff4096": {"d_ff": 4096},
    "D-drop0": {"dropout": 0.0},
    "D-drop2": {"dropout": 0.2},
    "D-ls0": {"label_smoothing": 0.0},
    "D-ls2": {"label_smoothing": 0.2},
    "E-learned": {"positions": "learned"},
}
_BIG = {
    "d_model": 1024,
    "d_ff": 4096,
    "num_heads": 16,
    "dropout": 0.3,
    "train_steps": 300_000,
    "average_checkpoints": 20,
}
CHANGES = {
    **{
        name: ("base", {"average_checkpoints": 0} | changes)
        for name, changes in _TABLE_3.items()
    },
    "big": ("base", _BIG),
    "big-enfr": ("big", {"vocabulary_size": 32_000, "dropout": 0.1}),
    # Kasai et al. 2021.
    "base-12-1": ("base", {"num_layers": 12, "num_decoder_layers": 1}),
    "base-6-2": ("base", {"num_decoder_layers": 2}),
    "tiny-4-1": ("tiny", {"num_layers": 4, "num_decoder_layers": 1}),
    "tiny-2-1": ("tiny", {"num_decoder_layers": 1}),
    "parsing-semi": ("parsing", {"vocabulary_size": 32_000}),
}
OTHERS = {"base", "tiny", "parsing", "parsing-small"} | {
    "multi30k-tiny",
    "multi30k-tiny-cooldown",
}


def counted(config):
    """Parameters by hand: the paper's matrices, biases and norms."""
    c = config
    norm = 2 * c.d_model
    attention = c.d_model * c.num_heads * 2 * (c.d_k + c.d_v)
    if c.attention_bias:
        attention += c.num_heads * (2 * c.d_k + c.d_v) + c.d_model
    feed = 2 * c.d_model * c.d_ff + c.d_ff + c.d_model
    encoder = attention + feed + 2 * norm
    decoder = 2 * attention + feed + 3 * norm
    tables = {"all": 1, "target-softmax": 2, "none": 3}[c.share_embeddings]
    rows = tables * c.vocabulary_size
    if c.source_vocabulary_size:
        rows += c.source_vocabulary_size - c.vocabulary_size
    total = rows * c.d_model
    total += c.num_layers * encoder
    total += (c.num_decoder_layers or c.num_layers) * decoder
    total += 2 * norm * (c.norm == "pre")
    learned = c.positions == "learned"
    return total + learned * 2 * c.max_positions * c.d_model


@pytest.mark.parametrize("name", PRINTED_MILLIONS)
def test_table_3_parameter_counts(name):
    config = kt.TransformerConfig.preset(
        name, vocabulary_size=AUTHORS_VOCABULARY
    )
    assert round(counted(config) / 1e6) == PRINTED_MILLIONS[name]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"share_embeddings": "target-softmax", "attention_bias": False},
        {"positions": "learned", "norm": "pre", "num_decoder_layers": 3},
        {"source_vocabulary_size": 7, "share_embeddings": "none"},
    ],
)
def test_models_have_the_counted_parameters(changes):
    config = helpers.config(**changes)
    assert kt.Transformer(config).count_params() == counted(config)


def test_published_counts():
    base = kt.TransformerConfig.preset(
        "base", vocabulary_size=AUTHORS_VOCABULARY
    )
    assert counted(base) == 65_110_016
    tiny = kt.TransformerConfig.preset("multi30k-tiny")
    assert kt.Transformer(tiny).count_params() == 2_568_192


@pytest.mark.parametrize("name", CHANGES)
def test_presets_differ_where_they_should(name):
    other, changes = CHANGES[name]
    expected = dataclasses.asdict(kt.TransformerConfig.preset(other)) | changes
    assert dataclasses.asdict(kt.TransformerConfig.preset(name)) == expected


def test_all_presets_are_here():
    assert PRESETS.keys() == CHANGES.keys() | OTHERS
    for name in OTHERS:
        kt.TransformerConfig.preset(name, vocabulary_size=500)


def test_decoding_as_in_section_6():
    base = kt.TransformerConfig.preset("base")
    assert (base.beam_size, base.alpha, base.max_extra_tokens) == (4, 0.6, 50)
    parsing = kt.TransformerConfig.preset("parsing")
    assert (parsing.beam_size, parsing.alpha) == (21, 0.3)
    assert parsing.max_extra_tokens == 300
    assert (parsing.num_layers, parsing.d_model) == (4, 1024)


@pytest.mark.parametrize(
    "name, peak",
    [("multi30k-tiny", 0.005), ("multi30k-tiny-cooldown", 0.003498270)],
)
def test_multi30k_peak_learning_rate(name, peak):
    config = kt.TransformerConfig.preset(name)
    schedule = kt.TransformerSchedule(
        config.d_model, config.warmup_steps, config.learning_rate_scale
    )
    assert float(schedule(config.warmup_steps)) == pytest.approx(peak)
