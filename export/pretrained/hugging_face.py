"""A directory of `MarianMTModel.save_pretrained`, read and checked."""

import json

import numpy as np

import keras_transformer as kt
from export.errors import InputError
from export.pretrained.architecture import config_of, number, sharing
from export.pretrained.arrays import open_arrays
from export.pretrained.incoming import (
    Pretrained,
    read_bytes,
    refuse_unknown_arrays,
    set_embeddings,
)
from export.pretrained.layout import (
    HUGGING_FACE,
    places_of_layers,
    set_layers,
)
from export.pretrained.two_sided import joined
from export.pretrained.vocabulary import (
    NO_ROW,
    read_table,
    vocabulary_of,
)

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_SOURCE_SPM, _TARGET_SPM = "source.spm", "target.spm"
_TABLE, _TARGET_TABLE = "vocab.json", "target_vocab.json"
_SHARED = "model.shared.weight"
_OF_SIDE = "model.{}.embed_tokens.weight"
_HEAD, _BIAS = "lm_head.weight", "final_logits_bias"
_POSITIONS = "model.{}.embed_positions.weight"
# How far a stored sinusoid may be from the formula in float32, or float16.
_TOLERANCE = 2e-3
# What a search of theirs may have and ours has not, and its value for "off".
_NOT_SEARCHED = {
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "repetition_penalty": 1.0,
    "min_length": 0,
    "forced_bos_token_id": None,
    "num_beam_groups": 1,
}


def read_hugging_face(folder):
    """Reads a directory of `save_pretrained`.

    Args:
        folder: pathlib.Path: config.json; model.safetensors or
            pytorch_model.bin; source.spm, target.spm, vocab.json and, where
            the sides' vocabularies are separate, target_vocab.json;
            generation_config.json and tokenizer_config.json where there are.

    Returns:
        Pretrained.

    Raises:
        InputError: something is missing, damaged or of another architecture.
    """
    found = _read_json(folder / "config.json")
    generation = _read_optional(folder / "generation_config.json")
    languages = _read_optional(folder / "tokenizer_config.json")
    shared = sharing(found) == "all"
    source, target = _vocabularies(folder, found, shared)
    arrays = open_arrays(folder, _WEIGHTS)
    rows = number(found, "vocab_size" if shared else _target_size(found))
    bias = arrays.read(_BIAS, (1, rows))[0] if _BIAS in arrays.names else None
    if bias is None:
        bias = np.zeros(rows, np.float32)
    has_bias = bool(bias.any() or (target.rows == NO_ROW).any())
    config = config_of(
        found,
        generation,
        {
            "vocabulary_size": len(target.rows),
            "source_vocabulary_size": 0 if shared else len(source.rows),
            "output_bias": has_bias,
        },
    )
    places = places_of_layers(config, HUGGING_FACE)
    tables = _embedding_tables(arrays, config, rows, found)
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
        joined(source.proto, target.proto),
        _text_or_none(languages.get("source_lang")),
        _text_or_none(languages.get("target_lang")),
        _notes(found | generation),
    )


def _target_size(found):
    """Returns the name under which config.json has it."""
    name = "decoder_vocab_size"
    return name if name in found else "vocab_size"


def _vocabularies(folder, found, shared):
    """Returns the Vocabulary of the source and of the target."""
    tables = [_table(folder / _TABLE, number(found, "vocab_size"))] * 2
    if not shared:
        name = _TARGET_TABLE if (folder / _TARGET_TABLE).exists() else _TABLE
        tables[1] = _table(folder / name, number(found, _target_size(found)))
    begin = _id(found, "decoder_start_token_id", found.get("pad_token_id"))
    end = _id(found, "eos_token_id", 0)
    return [
        _vocabulary(folder / spm, table, begin, end)
        for spm, table in zip((_SOURCE_SPM, _TARGET_SPM), tables)
    ]


def _vocabulary(spm, table, begin, end):
    if max(begin, end) >= len(table):
        raise InputError(
            f"config.json has decoder_start_token_id={begin} and "
            f"eos_token_id={end}, but there are only {len(table)} pieces."
        )
    unknown = table.get("<unk>")
    if unknown is None or len({unknown, begin, end}) < 3:
        raise InputError(
            f"{spm.parent} must have three ids of their own for the unknown "
            f"piece <unk>, the begin and the end, not {unknown}, {begin} and "
            f"{end}."
        )
    return vocabulary_of(table, read_bytes(spm), unknown, begin, end, str(spm))


def _table(path, size):
    table = read_table(read_bytes(path), str(path))
    if len(table) != size:
        raise InputError(
            f"{path} has {len(table)} pieces, but config.json says {size}; "
            "they are not of the same model."
        )
    return table


def _id(found, name, default):
    value = found.get(name, default)
    if type(value) is not int or value < 0:
        raise InputError(
            f"config.json must say {name}, the id of a piece, not {value!r}."
        )
    return value


def _embedding_tables(arrays, config, rows, found):
    """Returns their matrices [V, D] by name: source, target, output."""
    width = config.d_model
    if config.share_embeddings == "all":
        name = _SHARED if _SHARED in arrays.names else _HEAD
        shared = arrays.read(name, (rows, width))
        for other in (_OF_SIDE.format("encoder"), _OF_SIDE.format("decoder")):
            _require_equal(arrays, other, name, shared)
        _require_equal(arrays, _HEAD, name, shared)
        return {"target": shared}
    source = number(found, "vocab_size")
    tables = {
        "source": arrays.read(_OF_SIDE.format("encoder"), (source, width)),
        "target": arrays.read(_OF_SIDE.format("decoder"), (rows, width)),
    }
    if config.share_embeddings == "none":
        tables["output"] = arrays.read(_HEAD, (rows, width))
    else:
        _require_equal(
            arrays, _HEAD, _OF_SIDE.format("decoder"), tables["target"]
        )
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
    known = {place.name for place in places} | {_SHARED, _HEAD, _BIAS}
    for side in ("encoder", "decoder"):
        known |= {_OF_SIDE.format(side), _POSITIONS.format(side)}
    return known


def _notes(found):
    return [
        f"{name}={found[name]} is not done by our search"
        for name, off in _NOT_SEARCHED.items()
        if found.get(name, off) not in (off, None)
    ]


def _text_or_none(value):
    return value if isinstance(value, str) else None


def _read_json(path):
    try:
        found = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}.") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} must hold a JSON object.")
    return found


def _read_optional(path):
    return _read_json(path) if path.exists() else {}
