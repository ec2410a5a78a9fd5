"""The named configurations: sizes and parameter counts."""

import pytest

import keras_transformer as kt
from keras_transformer.presets import PRESETS, TABLE3
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


def test_published_parameter_counts():
    for name, millions in PRINTED_MILLIONS.items():
        config = kt.TransformerConfig.preset(
            name, vocabulary_size=AUTHORS_VOCABULARY
        )
        assert round(counted(config) / 1e6) == millions, name
    tiny = kt.TransformerConfig.preset("multi30k-tiny")
    assert kt.Transformer(tiny).count_params() == 2_568_192


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


def test_every_preset_is_valid():
    for name in PRESETS:
        config = kt.TransformerConfig.preset(name, vocabulary_size=500)
        assert name not in TABLE3 or config.average_checkpoints == 0


def test_the_defaults_are_the_base_model():
    base = kt.TransformerConfig.preset("base")
    assert base == kt.TransformerConfig(vocabulary_size=37_000)
