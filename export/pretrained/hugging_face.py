"""A directory of `MarianMTModel.save_pretrained`, read and checked."""

import numpy as np

import keras_transformer as kt
from export.errors import InputError
from export.pretrained.architecture import (
    config_of,
    has_one_vocabulary,
    number,
)
from export.pretrained.arrays import open_arrays
from export.pretrained.generation import read_generation
from export.pretrained.incoming import (
    NEVER,
    Pretrained,
    refuse_unknown_arrays,
    set_embeddings,
)
from export.pretrained.known_fields import (
    CONFIG,
    CONFIG_NOTES,
    check_fields,
    read_fields,
    read_optional,
)
from export.pretrained.layout import (
    HUGGING_FACE,
    places_of_layers,
    set_layers,
)
from export.pretrained.marian_tokenizer_files import MarianTokenizerFiles
from export.pretrained.vocabulary import NO_ROW
from export.tokenizers.vocabulary_file import join_sides
from keras_transformer.config import FORBIDDEN_IDS

_CONFIG, _GENERATION = "config.json", "generation_config.json"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_SHARED = "model.shared.weight"
_ENCODER, _DECODER = (
    f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")
)
_HEAD, _BIAS = "lm_head.weight", "final_logits_bias"
_POSITIONS = "model.{}.embed_positions.weight"
# Our matrices, and the names that each may have, by `share_embeddings`.
_MATRICES = {
    "all": {"target": (_SHARED, _DECODER, _ENCODER, _HEAD)},
    "target-softmax": {"source": (_ENCODER,), "target": (_DECODER, _HEAD)},
    "none": {
        "source": (_ENCODER, _SHARED),
        "target": (_DECODER, _SHARED),
        "output": (_HEAD,),
    },
}
# How far a stored sinusoid may be from the formula in float32, or bfloat16.
_TOLERANCE = 5e-3


def read_hugging_face(folder):
    """Reads a directory of `save_pretrained`.

    Args:
        folder: pathlib.Path: config.json; model.safetensors or
            pytorch_model.bin, or shards of one and their index; source.spm,
            target.spm, vocab.json and, where the sides' vocabularies are
            separate, target_vocab.json; generation_config.json and the files
            of the tokenizer where there are.

    Returns:
        Pretrained.

    Raises:
        InputError: something is missing, damaged or of another architecture,
            or a field of a file is not known.
    """
    # The default of MarianConfig, which is no model of Marian's.
    found = {"scale_embedding": False} | read_fields(folder / _CONFIG)
    notes = check_fields(found, CONFIG, CONFIG_NOTES, _CONFIG)
    generation = read_generation(found, read_optional(folder / _GENERATION))
    tokenizer = MarianTokenizerFiles(folder)
    one_vocabulary = has_one_vocabulary(found)
    rows = number(found, "vocab_size")
    source_rows = rows
    if not one_vocabulary and "decoder_vocab_size" in found:
        rows = number(found, "decoder_vocab_size")
    source, target = tokenizer.vocabularies(
        (source_rows, rows), generation.begin, generation.end
    )
    if one_vocabulary and not np.array_equal(source.rows, target.rows):
        raise InputError(
            f"{_CONFIG} has share_encoder_decoder_embeddings=True, but the "
            "tables of source and target differ; they must be one vocabulary."
        )
    arrays = open_arrays(folder, _WEIGHTS)
    bias = _bias(arrays, rows, target, generation, notes)
    config = config_of(
        found,
        generation.search,
        {
            "vocabulary_size": len(target.rows),
            "source_vocabulary_size": 0 if one_vocabulary else len(source.rows),
            "output_bias": bool(bias.any() or (target.rows == NO_ROW).any()),
        },
    )
    places = places_of_layers(config, HUGGING_FACE)
    tables = _embedding_tables(arrays, config, source_rows, rows)
    refuse_unknown_arrays(
        arrays, _known_arrays(places), "MarianMTModel of this config.json"
    )
    config = config.replace(sinusoid_rates=_rates(arrays, config))
    for place in places:
        arrays.check(place.name, place.their_shape)
    model = kt.Transformer(config)
    set_embeddings(model, tables, bias, source, target)
    # They are as large as all layers.
    del tables
    set_layers(model, places, arrays.read)
    return Pretrained(
        model,
        join_sides(source.proto, target.proto),
        *tokenizer.languages,
        [*notes, *tokenizer.notes, *generation.notes],
    )


def _bias(arrays, rows, target, generation, notes):
    """Returns what is added to the logits, float32 [V']."""
    bias = np.zeros(rows, np.float32)
    if _BIAS in arrays.names:
        shape = arrays.shape(_BIAS)
        # Padding the embeddings to a multiple does not pad it.
        is_shorter = len(shape) == 2 and shape[0] == 1 and shape[1] < rows
        shape = shape if is_shorter else (1, rows)
        bias[: shape[1]] = arrays.read(_BIAS, shape)[0]
    suppressed = {each for each in generation.suppressed if 0 <= each < rows}
    if not generation.is_renormalized:
        # Ours never generates them, and they keep their share of the softmax.
        suppressed -= set(target.rows[list(FORBIDDEN_IDS)])
        if suppressed:
            notes.append(
                f"{len(suppressed)} suppressed tokens, such as "
                f"{min(suppressed)}, have no share of the softmax here, and "
                "have one in transformers: scores differ by it"
            )
    bias[list(suppressed)] = NEVER
    return bias


def _embedding_tables(arrays, config, source_rows, rows):
    """Returns their matrices [V, D] by name: source, target, output."""
    tables = {}
    for table, names in _MATRICES[config.share_embeddings].items():
        present = [name for name in names if name in arrays.names] or names
        size = source_rows if table == "source" else rows
        tables[table] = arrays.read(present[0], (size, config.d_model))
        if config.share_embeddings != "none":
            for other in present[1:]:
                _require_equal(arrays, other, present[0], tables[table])
    return tables


def _require_equal(arrays, name, other, expected):
    if name not in arrays.names:
        return
    if not np.array_equal(arrays.read(name, expected.shape), expected):
        raise InputError(
            f"{arrays.path}: {name} and {other} must be one matrix, as "
            "config.json says, but they differ."
        )


def _rates(arrays, config):
    """Returns which sinusoids a model was stored with; the paper's if none."""
    for side in ("encoder", "decoder"):
        name = _POSITIONS.format(side)
        if name not in arrays.names:
            continue
        length = arrays.shape(name)[0]
        stored = arrays.read(name, (length, config.d_model))
        for rates in ("paper", "marian"):
            expected = _sinusoid(stored.shape, rates)
            if np.allclose(stored, expected, rtol=0.0, atol=_TOLERANCE):
                return rates
        raise InputError(
            f"{arrays.path}: {name} holds no sinusoids but positions of its "
            "own, which are not supported."
        )
    return "paper"


def _sinusoid(shape, rates):
    length, width = shape
    steps = width / 2 if rates == "paper" else width / 2 - 1
    angles = np.arange(length)[:, None] * 10000.0 ** (
        -np.arange(width / 2) / steps
    )
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def _known_arrays(places):
    known = {place.name for place in places}
    known |= {_POSITIONS.format(side) for side in ("encoder", "decoder")}
    return known | {_SHARED, _ENCODER, _DECODER, _HEAD, _BIAS}
