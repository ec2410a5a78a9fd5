"""Reads a directory of `MarianMTModel.save_pretrained`."""

import numpy as np

import keras_transformer as kt
from export.common.errors import InputError
from export.pretrained.checkpoint import open_checkpoint
from export.pretrained.field_tables import (
    CONFIG,
    check_fields,
    read_count,
    wrong_value,
)
from export.pretrained.generation import read_generation
from export.pretrained.incoming import (
    EXCLUDED,
    MAX_VOCABULARY,
    Pretrained,
    make_config,
    set_embeddings,
)
from export.pretrained.marian_tokenizer import MarianTokenizerFiles
from export.pretrained.text_files import read_json
from export.pretrained.vocabulary import MISSING_ROW
from export.pretrained.weight_mapping import layer_slots, set_layers
from export.tokenizers.vocabulary_file import join_vocabularies
from keras_transformer.config import FORBIDDEN_IDS

_CONFIG, _GENERATION = "config.json", "generation_config.json"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
# transformers' name of an activation, and the one of a TransformerConfig.
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}
# Of PyTorch's LayerNorm, as MarianMTModel uses it; `export.marian` adds it.
_EPSILON = 1e-5
# Other names of MarianConfig for the same fields.
_ALIASES = {
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
    "num_attention_heads": "encoder_attention_heads",
}
_SHARED = "model.shared.weight"
_ENCODER, _DECODER = (
    f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")
)
_HEAD, _BIAS = "lm_head.weight", "final_logits_bias"
_POSITIONS = "model.{}.embed_positions.weight"
# By `share_embeddings`: the matrices, and the names that each may have.
_MATRICES = {
    "all": {"target": (_SHARED, _DECODER, _ENCODER, _HEAD)},
    "target-softmax": {"source": (_ENCODER,), "target": (_DECODER, _HEAD)},
    "none": {
        "source": (_ENCODER, _SHARED),
        "target": (_DECODER, _SHARED),
        "output": (_HEAD,),
    },
}
# How far stored sinusoids may be from the formula, in float32 or bfloat16.
_TOLERANCE = 5e-3


def read_hugging_face(folder):
    """Reads a directory of `save_pretrained`.

    Args:
        folder: pathlib.Path: config.json; model.safetensors or
            pytorch_model.bin, or shards of one and their index; source.spm,
            target.spm, vocab.json and, for separate vocabularies,
            target_vocab.json; optionally generation_config.json and the files
            of the tokenizer.

    Returns:
        Pretrained.

    Raises:
        InputError: something is missing, damaged or of another architecture,
            or a field of a file is not known.
    """
    # MarianConfig's default, which no model of Marian has.
    fields = {"scale_embedding": False} | read_json(folder / _CONFIG)
    notes = check_fields(fields, CONFIG, _CONFIG)
    path = folder / _GENERATION
    settings = read_json(path) if path.exists() else None
    generation = read_generation(fields, settings)
    is_shared = fields.get("share_encoder_decoder_embeddings", True)
    source_rows = rows = _read_size(fields, "vocab_size")
    if not is_shared and "decoder_vocab_size" in fields:
        rows = _read_size(fields, "decoder_vocab_size")
    tokenizer = MarianTokenizerFiles(folder)
    source, target = tokenizer.vocabularies(
        (source_rows, rows), generation.begin, generation.end
    )
    if is_shared and not np.array_equal(source.rows, target.rows):
        raise InputError(
            f"{_CONFIG} has share_encoder_decoder_embeddings=True, but the "
            "tables of source and target differ; they must be one vocabulary."
        )
    checkpoint = open_checkpoint(folder, _WEIGHTS)
    bias = _read_bias(checkpoint, rows, target, generation, notes)
    config = _make_config(
        fields,
        vocabulary_size=len(target.rows),
        source_vocabulary_size=0 if is_shared else len(source.rows),
        output_bias=bool(bias.any() or (target.rows == MISSING_ROW).any()),
        **generation.search,
    )
    slots = layer_slots(config, is_hugging_face=True)
    tables = _read_embeddings(checkpoint, config, source_rows, rows)
    checkpoint.validate_names(
        {slot.name for slot in slots}
        | {_POSITIONS.format(side) for side in ("encoder", "decoder")}
        | {_SHARED, _ENCODER, _DECODER, _HEAD, _BIAS},
        "MarianMTModel of this config.json",
    )
    config = config.replace(sinusoid_rates=_read_rates(checkpoint, config))
    for slot in slots:
        checkpoint.check(slot.name, slot.stored_shape)
    model = kt.Transformer(config)
    set_embeddings(model, tables, bias, source, target)
    # They are as large as all layers.
    del tables
    set_layers(model, slots, checkpoint.read)
    return Pretrained(
        model,
        join_vocabularies(source.proto, target.proto),
        *tokenizer.languages,
        [*notes, *tokenizer.notes, *generation.notes],
    )


def _make_config(fields, **others):
    if fields.get("model_type", "marian") != "marian":
        raise wrong_value(
            _CONFIG, "model_type", fields["model_type"], "'marian'"
        )
    for alias, name in _ALIASES.items():
        if alias in fields and fields[alias] != fields.get(name):
            raise wrong_value(
                *(_CONFIG, alias, fields[alias]), f"{name}, its other name,"
            )
    layers = [
        _read_size(fields, f"{side}_layers", 1000)
        for side in ("encoder", "decoder")
    ]
    is_tied = fields.get("tie_word_embeddings", True)
    is_shared = fields.get("share_encoder_decoder_embeddings", True)
    share_embeddings = "target-softmax" if is_tied else "none"
    return make_config(
        _CONFIG,
        _read_size(fields, "d_model", 2**16),
        _read_equal_sizes(fields, "attention_heads", 2**12),
        layers,
        d_ff=_read_equal_sizes(fields, "ffn_dim", 2**20),
        layer_norm_epsilon=fields.get("layer_norm_epsilon", _EPSILON),
        activation=ACTIVATIONS[fields.get("activation_function", "gelu")],
        share_embeddings="all" if is_tied and is_shared else share_embeddings,
        dropout=fields.get("dropout", 0.1),
        attention_dropout=fields.get("attention_dropout", 0.0),
        activation_dropout=fields.get("activation_dropout", 0.0),
        **others,
    )


def _read_size(fields, name, maximum=MAX_VOCABULARY):
    return read_count(fields, name, maximum, _CONFIG)


def _read_equal_sizes(fields, name, maximum):
    encoder, decoder = (
        _read_size(fields, f"{side}_{name}", maximum)
        for side in ("encoder", "decoder")
    )
    if encoder != decoder:
        expected = f"{encoder} as in the encoder"
        raise wrong_value(_CONFIG, f"decoder_{name}", decoder, expected)
    return encoder


def _read_bias(checkpoint, rows, target, generation, notes):
    """Returns the bias of the logits, float32 [V']."""
    bias = np.zeros(rows, np.float32)
    if _BIAS in checkpoint.names:
        shape = checkpoint.shape(_BIAS)
        # Padding the embeddings to a multiple does not pad it.
        is_shorter = len(shape) == 2 and shape[0] == 1 and shape[1] < rows
        shape = shape if is_shorter else (1, rows)
        bias[: shape[1]] = checkpoint.read(_BIAS, shape)[0]
    suppressed = {row for row in generation.suppressed if 0 <= row < rows}
    if not generation.is_renormalized:
        # These are never generated here, and keep their share of the softmax.
        suppressed -= set(target.rows[list(FORBIDDEN_IDS)])
        if suppressed:
            notes.append(
                f"{len(suppressed)} suppressed tokens, such as "
                f"{min(suppressed)}, have no share of the softmax here, and "
                "have one in transformers: scores differ by it"
            )
    bias[list(suppressed)] = EXCLUDED
    return bias


def _read_embeddings(checkpoint, config, source_rows, rows):
    """Returns the matrices [V', D] by name: source, target, output."""
    tables = {}
    for table, names in _MATRICES[config.share_embeddings].items():
        present = [name for name in names if name in checkpoint.names] or names
        size = source_rows if table == "source" else rows
        shape = (size, config.d_model)
        tables[table] = checkpoint.read(present[0], shape)
        if config.share_embeddings == "none":
            continue
        for other in set(present[1:]) & checkpoint.names:
            if not np.array_equal(checkpoint.read(other, shape), tables[table]):
                raise InputError(
                    f"{checkpoint.path}: {other} and {present[0]} must be one "
                    "matrix, as config.json says, but they differ."
                )
    return tables


def _read_rates(checkpoint, config):
    """Returns `sinusoid_rates` of the stored positions; "paper" if none."""
    for side in ("encoder", "decoder"):
        name = _POSITIONS.format(side)
        if name not in checkpoint.names:
            continue
        length = checkpoint.shape(name)[0]
        stored = checkpoint.read(name, (length, config.d_model))
        for rates in ("paper", "marian"):
            expected = _sinusoid(*stored.shape, rates)
            if np.allclose(stored, expected, rtol=0.0, atol=_TOLERANCE):
                return rates
        raise InputError(
            f"{checkpoint.path}: {name} holds positions that are not "
            "sinusoids, which are not supported."
        )
    return "paper"


def _sinusoid(length, width, rates):
    steps = width / 2 if rates == "paper" else width / 2 - 1
    angles = np.arange(length)[:, None] * 10000.0 ** (
        -np.arange(width / 2) / steps
    )
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
