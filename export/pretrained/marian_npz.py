"""A directory of Marian itself, as OPUS-MT publishes its models."""

import functools
import pathlib

import numpy as np

import keras_transformer as kt
from export.errors import InputError
from export.pretrained.arrays import Arrays
from export.pretrained.incoming import (
    Pretrained,
    read_bytes,
    refuse_unknown_arrays,
    set_embeddings,
)
from export.pretrained.layout import MARIAN, places_of_layers, set_layers
from export.pretrained.marian_options import (
    has_bias,
    network_of,
    search_notes,
    search_of,
    shares_sides,
    sharing,
    vocabulary_sizes,
)
from export.pretrained.marian_table import END, UNKNOWN, read_tables
from export.pretrained.vocabulary import vocabulary_of
from export.pretrained.yaml_text import read_yaml_mapping
from export.tokenizers.opus_text import OPUS_TEXT
from export.tokenizers.vocabulary_file import add_text_rules, join_sides

_DECODER, _MODEL = "decoder.yml", "special:model.yml"
_SOURCE_SPM, _TARGET_SPM = "source.spm", "target.spm"
_SHARED, _OF_SIDE = "Wemb", "{}_Wemb"
_OUTPUT, _BIAS = "decoder_ff_logit_out_{}", "decoder_ff_logit_out_b"


def read_marian(folder):
    """Reads a directory of Marian's own files.

    Args:
        folder: pathlib.Path: decoder.yml, the model and the vocabularies that
            it names, source.spm and target.spm.

    Returns:
        Pretrained. Its sources are read by the rules of OPUS-MT's scripts;
        see `export.tokenizers.table_tokenizers`.

    Raises:
        InputError: something is missing, damaged or of another architecture.
    """
    decoder = read_yaml_mapping(
        read_bytes(folder / _DECODER), str(folder / _DECODER)
    )
    arrays = Arrays(_model_path(folder, decoder))
    name = f"{arrays.path}: {_MODEL}"
    options = read_yaml_mapping(arrays.read_text(_MODEL), name)
    sizes = vocabulary_sizes(options)
    tables, notes = read_tables(_vocabulary_paths(folder, decoder), sizes)
    _require_one_vocabulary(options, tables)
    source, target = [
        _vocabulary(folder / spm, table)
        for spm, table in zip((_SOURCE_SPM, _TARGET_SPM), tables)
    ]
    shared = sharing(options) == "all"
    config = network_of(
        options,
        {
            "vocabulary_size": len(target.rows),
            "source_vocabulary_size": 0 if shared else len(source.rows),
        },
    ).replace(**search_of(decoder))
    places = places_of_layers(config, MARIAN)
    embeddings = _embeddings(arrays, config, options, sizes)
    bias = np.zeros(sizes[1], np.float32)
    if has_bias(options):
        bias = _read(arrays, _BIAS, bias.shape)
    refuse_unknown_arrays(
        arrays, _known_arrays(arrays, places), "Transformer of its options"
    )
    for place in places:
        arrays.check(place.name, _stored_shape(arrays, place.name, place.shape))
    model = kt.Transformer(config)
    set_layers(model, places, functools.partial(_read, arrays))
    set_embeddings(model, embeddings, bias, source, target)
    return Pretrained(
        model,
        join_sides(add_text_rules(source.proto, OPUS_TEXT), target.proto),
        None,
        None,
        [*notes, *search_notes(decoder)],
    )


def _model_path(folder, decoder):
    name = _one_of(_names(decoder, "models"), "models", "model")
    path = folder / name
    if path.suffix != ".npz":
        raise InputError(
            f"{_DECODER} names the model {name}; only .npz is supported. "
            "Marian's marian-conv does not make one of it: take the file that "
            "was trained."
        )
    if not path.exists():
        others = sorted(other.name for other in folder.glob("*.npz"))
        raise InputError(
            f"{folder} has no {name}, which its {_DECODER} names as the "
            f"model, but {', '.join(others) or 'no .npz file'}; put the right "
            "name there."
        )
    return path


def _vocabulary_paths(folder, decoder):
    names = _names(decoder, "vocabs")
    if len(names) != 2:
        raise InputError(
            f"{_DECODER} names {len(names)} vocabs; it must be two, the "
            "source's and the target's."
        )
    return [folder / name for name in names]


def _names(decoder, key):
    """Returns the names of files, without the folders of where they were."""
    found = decoder.get(key, [])
    found = [found] if isinstance(found, str) else found
    if not isinstance(found, list) or not all(
        isinstance(name, str) and _bare(name) not in ("", "..")
        for name in found
    ):
        raise InputError(f"{_DECODER} must have {key}, a list of files.")
    return [_bare(name) for name in found]


def _bare(name):
    return pathlib.PurePosixPath(name).name


def _one_of(names, key, what):
    if len(names) != 1:
        raise InputError(
            f"{_DECODER} names {len(names)} {key}"
            f"{': ' if names else ''}{', '.join(names)}; only one {what} is "
            "imported. Leave one there, and decode several together with "
            "export.translate."
        )
    return names[0]


def _require_one_vocabulary(options, tables):
    if shares_sides(options) and tables[0] != tables[1]:
        raise InputError(
            "The model has one matrix of embeddings for source and target, "
            f"but {_DECODER} names different vocabularies."
        )


def _vocabulary(spm, table):
    if not spm.exists() and spm.with_suffix(".bpe").exists():
        raise InputError(
            f"{spm.parent} has {spm.stem}.bpe, of a model whose text is cut "
            "by subword-nmt, which is not supported; models with .spm are."
        )
    return vocabulary_of(
        table, read_bytes(spm), table[UNKNOWN], None, table[END], str(spm)
    )


def _embeddings(arrays, config, options, sizes):
    """Returns their matrices [V, D] by name: source, target, output."""
    width = config.d_model
    names = [_OF_SIDE.format("encoder"), _OF_SIDE.format("decoder")]
    if shares_sides(options):
        names = [_SHARED, _SHARED]
    target = _read(arrays, names[1], (sizes[1], width))
    if config.share_embeddings == "all":
        return {"target": target}
    found = {
        "source": _read(arrays, names[0], (sizes[0], width)),
        "target": target,
    }
    if config.share_embeddings == "none":
        found["output"] = _output(arrays, sizes[1], width)
    return found


def _output(arrays, size, width):
    older = _OUTPUT.format("W")
    if older in arrays.names:
        return _read(arrays, older, (width, size)).T
    return _read(arrays, _OUTPUT.format("Wt"), (size, width))


def _read(arrays, name, shape):
    stored = _stored_shape(arrays, name, shape)
    return arrays.read(name, stored).reshape(shape)


def _stored_shape(arrays, name, shape):
    """Returns [1, n] for [n] where it is stored so, as Marian does."""
    is_row = len(shape) == 1 and len(arrays.shape(name)) == 2
    return (1, *shape) if is_row else shape


def _known_arrays(arrays, places):
    known = {place.name for place in places} | {_SHARED, _BIAS}
    known |= {_OF_SIDE.format(side) for side in ("encoder", "decoder")}
    known |= {_OUTPUT.format(kind) for kind in ("W", "Wt")}
    special = {name for name in arrays.names if name.startswith("special:")}
    return known | special
