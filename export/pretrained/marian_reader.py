"""Reads a directory in Marian's own format, as OPUS-MT publishes its models.

Both searches rank by score / length ^ normalize, the end included, and stop
when K hypotheses have ended. But Marian's beam gets narrower with each of them,
so that it sometimes finds another translation; and its maximum length is a
multiple of the longest source in the batch, here the source's length plus a
constant.
"""

import math
import pathlib
import re

import numpy as np
import yaml

from export.common.errors import InputError
from export.pretrained.checkpoint import WeightsFile
from export.pretrained.config_files import (
    MARIAN_DECODER,
    MARIAN_NETWORK,
    OFF,
    check_fields,
    read_bytes,
    read_count,
    wrong_value_error,
)
from export.pretrained.vocabulary import complete_table, make_vocabulary
from export.pretrained.weight_mapping import (
    MAX_VOCABULARY,
    PretrainedModel,
    layer_slots,
    load_transformer,
    make_config,
    set_embeddings,
)
from export.tokenizers.python_tokenizers import (
    OPUS_MT,
    add_normalizer,
    join_vocabularies,
)
from keras_transformer.config import MAX_ALPHA, MAX_BEAMS

_DECODER, _MODEL = "decoder.yml", "special:model.yml"
_END, _UNKNOWN = "</s>", "<unk>"
_SHARED_EMBEDDING, _SIDE_EMBEDDINGS = "Wemb", ("encoder_Wemb", "decoder_Wemb")
_OUTPUT, _UNTRANSPOSED_OUTPUT = (
    "decoder_ff_logit_out_Wt",
    "decoder_ff_logit_out_W",
)
_BIAS = "decoder_ff_logit_out_b"
_ACTIVATIONS = {"relu": "relu", "swish": "silu"}
# Up to this source length, in pieces, Marian's maximum output length fits.
_REFERENCE_LENGTH = 128
# Marian's files nest at most lists in a mapping.
_MAX_YAML_DEPTH = 3
# libyaml's loader, which PyYAML may lack, is twenty times as fast.
_BASE_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def read_marian(folder):
    """Reads a directory of Marian's own files as a PretrainedModel.

    InputError if a file is missing, damaged or of another architecture.
    """
    decoder = parse_yaml(read_bytes(folder / _DECODER), folder / _DECODER)
    checkpoint = WeightsFile(_find_model(folder, decoder))
    name = f"{checkpoint.path}: {_MODEL}"
    options = parse_yaml(checkpoint.read_text(_MODEL), name)
    # A missing type means one of Marian's recurrent networks.
    check_fields({"type": "none"} | options, MARIAN_NETWORK, _MODEL)
    sizes = _vocabulary_sizes(options)
    tables, notes = _read_tables(folder, decoder, sizes)
    share_embeddings, is_shared = _read_weight_tying(options)
    if is_shared and tables[0] != tables[1]:
        raise InputError(
            f"{_DECODER}: expected one vocabulary for source and target, as "
            "they have one matrix of embeddings, got different ones."
        )
    source, target = (
        make_vocabulary(
            *(table, read_bytes(folder / f"{side}.spm"), table[_UNKNOWN]),
            *(None, table[_END], f"{folder / side}.spm"),
        )
        for side, table in zip(("source", "target"), tables)
    )
    is_joint = share_embeddings == "all"
    config = _make_config(
        options,
        share_embeddings=share_embeddings,
        vocabulary_size=len(target.rows),
        source_vocabulary_size=0 if is_joint else len(source.rows),
        **_read_search(decoder),
    )
    notes += check_fields(decoder, MARIAN_DECODER, _DECODER)
    if _read_number(decoder, "word-penalty", 0.0, 100):
        notes.append(f"word-penalty of {_DECODER} has no effect here")
    slots = layer_slots(config, is_hugging_face=False)
    embeddings = _read_embeddings(checkpoint, config, is_shared, sizes)
    bias = np.zeros(sizes[1], np.float32)
    if not _is_enabled(options, "output-omit-bias"):
        bias = checkpoint.read(_BIAS, bias.shape)
    names = {name for name in checkpoint.names if name.startswith("special:")}
    names |= {
        _SHARED_EMBEDDING,
        *_SIDE_EMBEDDINGS,
        _OUTPUT,
        _UNTRANSPOSED_OUTPUT,
        _BIAS,
    }
    model = load_transformer(config, checkpoint, slots, names)
    set_embeddings(model, embeddings, bias, source, target)
    source_proto = add_normalizer(source.proto, OPUS_MT)
    vocabulary = join_vocabularies(source_proto, target.proto)
    return PretrainedModel(model, vocabulary, (None, None), notes)


def _find_model(folder, decoder):
    names = _file_names(decoder, "models")
    path = folder / (names[0] if len(names) == 1 else "")
    if path.suffix != ".npz" or not path.exists():
        # Files converted by marian-conv are not supported.
        files = sorted(path.name for path in folder.glob("*.npz"))
        expected = f"one .npz file of {folder}, which has {files},"
        raise wrong_value_error(_DECODER, "models", names, expected)
    return path


def _file_names(decoder, key):
    """Returns the names of files, without folders of another machine."""
    names = decoder.get(key, [])
    names = [names] if isinstance(names, str) else names
    if isinstance(names, list) and all(isinstance(n, str) for n in names):
        file_names = [pathlib.PurePosixPath(name).name for name in names]
        if not {"", ".."} & {*file_names}:
            return file_names
    raise wrong_value_error(_DECODER, key, names, "a list of files")


def _read_tables(folder, decoder, sizes):
    """Returns the tables of both sides, piece to id, and notes."""
    names = _file_names(decoder, "vocabs")
    if len(names) != 2:
        expected = "two files, of the source and of the target,"
        raise wrong_value_error(_DECODER, "vocabs", names, expected)
    tables, notes = [], []
    for name, size in zip(names, sizes):
        path = folder / name
        table = parse_yaml(read_bytes(path), path)
        for piece, row in table.items():
            if not isinstance(row, str) or not re.fullmatch("[0-9]{1,9}", row):
                raise wrong_value_error(path, piece[:40], row, "an id")
        if not {_END, _UNKNOWN} <= table.keys():
            raise InputError(f"{path} must have {_END} and {_UNKNOWN}.")
        table = {piece: int(row) for piece, row in table.items()}
        table, more_notes = complete_table(table, size, path)
        tables.append(table)
        notes += more_notes
    return tables, notes


def _vocabulary_sizes(options):
    sizes = options.get("dim-vocabs")
    if not isinstance(sizes, list) or len(sizes) != 2:
        expected = "the two sizes of the vocabularies"
        raise wrong_value_error(_MODEL, "dim-vocabs", sizes, expected)
    return [
        read_count({"dim-vocabs": size}, "dim-vocabs", MAX_VOCABULARY, _MODEL)
        for size in sizes
    ]


def _make_config(options, **others):
    inner = read_count(options, "transformer-dim-ffn", 2**20, _MODEL)
    name = "transformer-decoder-dim-ffn"
    if options.get(name, "0") not in ("0", str(inner)):
        expected = f"{inner} as in the encoder"
        raise wrong_value_error(_MODEL, name, options[name], expected)
    activation = options.get("transformer-ffn-activation", "swish")
    return make_config(
        _MODEL,
        read_count(options, "dim-emb", 2**16, _MODEL),
        read_count(options, "transformer-heads", 2**12, _MODEL),
        read_count(options, "enc-depth", 1000, _MODEL),
        read_count(options, "dec-depth", 1000, _MODEL),
        d_ff=inner,
        # Marian's Transformer has 1e-6, its other networks 1e-9.
        layer_norm_epsilon=1e-6,
        activation=_ACTIVATIONS[activation],
        output_bias=True,
        sinusoid_rates="marian",
        **others,
    )


def _read_weight_tying(options):
    """Returns `share_embeddings`, and whether both sides have one matrix."""
    is_all = _is_enabled(options, "tied-embeddings-all")
    is_output = _is_enabled(options, "tied-embeddings")
    is_shared = is_all or _is_enabled(options, "tied-embeddings-src")
    if is_all or (is_output and is_shared):
        return "all", True
    return "target-softmax" if is_output else "none", is_shared


def _is_enabled(options, name):
    return options.get(name, "false") not in OFF


def _read_search(decoder):
    """Returns the fields of a TransformerConfig for decoder.yml's search."""
    factor = max(_read_number(decoder, "max-length-factor", 3.0, 100), 1.0)
    return {
        "beam_size": read_count(decoder, "beam-size", MAX_BEAMS, _DECODER, 12),
        "alpha": _read_number(decoder, "normalize", 0.0, MAX_ALPHA),
        "length_penalty": "power",
        "stop_criterion": "k_finished",
        "max_extra_tokens": math.ceil((factor - 1) * _REFERENCE_LENGTH),
    }


def _read_number(decoder, name, default, maximum):
    try:
        value = float(decoder.get(name, default))
    except (TypeError, ValueError):
        value = math.nan
    if not 0 <= value <= maximum:
        expected = f"a number from 0 to {maximum:g}"
        raise wrong_value_error(_DECODER, name, decoder[name], expected)
    return value


def _read_embeddings(checkpoint, config, is_shared, sizes):
    """Returns the matrices [V', D] by name: source, target, output."""
    width, share_embeddings = config.d_model, config.share_embeddings
    source, target = [_SHARED_EMBEDDING] * 2 if is_shared else _SIDE_EMBEDDINGS
    tables = {"target": checkpoint.read(target, (sizes[1], width))}
    if share_embeddings != "all":
        tables["source"] = checkpoint.read(source, (sizes[0], width))
    if share_embeddings == "none" and _UNTRANSPOSED_OUTPUT in checkpoint.names:
        output = checkpoint.read(_UNTRANSPOSED_OUTPUT, (width, sizes[1]))
        tables["output"] = output.T
    elif share_embeddings == "none":
        tables["output"] = checkpoint.read(_OUTPUT, (sizes[1], width))
    return tables


class _TextLoader(_BASE_LOADER):
    """A safe loader that keeps every scalar as text.

    SafeLoader reads the piece `no` as False, and `1_000` as a number.
    """

    def construct_mapping(self, node, deep=False):
        fields = super().construct_mapping(node, deep)
        if len(fields) != len(node.value):
            raise ValueError("it has a name twice")
        return fields


def parse_yaml(content, name):
    """Returns the mapping of a YAML file, str to str, list or dict.

    Marian writes no references, by which a small file stands for an endless
    one, and no deep nesting: both are InputErrors.
    """
    try:
        depth = 0
        for event in yaml.parse(content, Loader=_BASE_LOADER):
            if getattr(event, "anchor", None) is not None:
                raise ValueError(f"it has a reference, {event.anchor}")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_YAML_DEPTH:
                raise ValueError("it is nested too deeply")
        fields = yaml.load(content, Loader=_TextLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{name} is not valid Marian YAML: {reason}."
        ) from None
    if not isinstance(fields, dict):
        raise InputError(f"{name} must hold a YAML mapping, name to value.")
    return fields
