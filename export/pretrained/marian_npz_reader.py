"""Reads a directory of Marian itself, as OPUS-MT publishes its models.

Both searches rank by score / length ^ normalize, the end included, and stop
when K hypotheses have ended. Marian's beam gets narrower with each of them, and
its maximum length is a multiple of the longest source in the batch, here the
source's length plus a constant: sometimes the translations differ.
"""

import math
import os
import pathlib
import re
import typing

import numpy as np
import yaml

from export.common.errors import InputError
from export.pretrained.config_files import (
    FALSE_STRINGS,
    MARIAN_DECODER_FIELDS,
    MARIAN_MODEL_FIELDS,
    read_bytes,
    read_int,
    read_number,
    validate_fields,
    wrong_value_error,
)
from export.pretrained.pretrained_model import PretrainedModel
from export.pretrained.vocabulary import (
    complete_vocab,
    make_vocabulary,
    read_piece_ids,
)
from export.pretrained.weight_mapping import (
    MAX_VOCABULARY,
    layer_mappings,
    load_transformer,
    make_transformer_config,
    set_embeddings,
)
from export.pretrained.weights_file import WeightsFile
from export.tokenizers.python_tokenizers import (
    OPUS_MT,
    TAG,
    add_kind,
    join_vocabularies,
)
from keras_transformer.config import MAX_ALPHA, MAX_BEAMS, MIN_ALPHA

_DECODER_FILE, _MODEL_OPTIONS = "decoder.yml", "special:model.yml"
_END, _UNKNOWN = "</s>", "<unk>"
# Of SentencePiece models, which may be vocabularies with ids of their own.
_SPM = ".spm"
# Names of the arrays of embeddings.
_SHARED, _OUTPUT_BIAS = "Wemb", "decoder_ff_logit_out_b"
_SOURCE, _TARGET = "encoder_Wemb", "decoder_Wemb"
_OUTPUT, _OUTPUT_KERNEL = "decoder_ff_logit_out_Wt", "decoder_ff_logit_out_W"
_ACTIVATIONS = {"relu": "relu", "swish": "silu"}
# Of fields of a TransformerConfig that may be wrong.
_OPTION_NAMES = {"d_model": "dim-emb", "num_heads": "transformer-heads"}
# Up to this source length, in pieces, Marian's maximum output length fits.
_REFERENCE_LENGTH = 128
# Marian's files nest at most lists in a mapping.
_MAX_YAML_DEPTH = 3
# libyaml's loader, which PyYAML may lack, is twenty times as fast.
_BASE_LOADER: typing.Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def read_marian_npz(folder: pathlib.Path) -> PretrainedModel:
    """Reads a directory of Marian's own files as a PretrainedModel.

    Raises InputError if a file is missing, damaged or of another architecture.
    """
    path = _find_decoder_file(folder)
    decoder_options = parse_yaml(read_bytes(path), path)
    weights = WeightsFile(_find_model(folder, decoder_options))
    name = f"{weights.path}: {_MODEL_OPTIONS}"
    options = parse_yaml(weights.read_text(_MODEL_OPTIONS), name)
    # A missing type means one of Marian's recurrent networks.
    options = {"type": "none"} | options
    validate_fields(options, MARIAN_MODEL_FIELDS, _MODEL_OPTIONS)
    # The model's options precede those of `--dump-config full`.
    names = decoder_options.keys() & MARIAN_MODEL_FIELDS.keys()
    more_options = {name: decoder_options[name] for name in names - {*options}}
    validate_fields(more_options, MARIAN_MODEL_FIELDS, _DECODER_FILE)
    options |= more_options
    sizes = _read_vocabulary_sizes(options)
    vocabs, spm_paths, warnings = _read_vocabs(folder, decoder_options, sizes)
    share_embeddings, has_shared_embedding = _read_weight_tying(options)
    if has_shared_embedding and vocabs[0] != vocabs[1]:
        raise InputError(
            f"{_DECODER_FILE}: expected one vocabulary for source and target "
            "in vocabs, as tied-embeddings-all or tied-embeddings-src of "
            f"{_MODEL_OPTIONS} gives them one matrix, got different ones."
        )
    source, target = map(_convert_vocab, vocabs, spm_paths)
    source_size = len(source.checkpoint_ids)
    config = _read_config(
        options,
        share_embeddings=share_embeddings,
        vocabulary_size=len(target.checkpoint_ids),
        source_vocabulary_size=0 if share_embeddings == "all" else source_size,
        **_read_search_fields(decoder_options),
    )
    warnings += validate_fields(
        decoder_options, MARIAN_DECODER_FIELDS, _DECODER_FILE
    )
    limits = -100, 10**9, _DECODER_FILE
    if read_number(decoder_options, "word-penalty", *limits, 0):
        warnings.append(f"word-penalty of {_DECODER_FILE} is ignored")
    # Here a source has at most 512 tokens.
    if read_number(decoder_options, "max-length", *limits, 1000) < 512:
        warnings.append(f"max-length of {_DECODER_FILE} is ignored")
    embeddings = _read_embeddings(weights, config, has_shared_embedding, sizes)
    bias = np.zeros(sizes[1], np.float32)
    if not _is_enabled(options, "output-omit-bias"):
        bias = weights.read(_OUTPUT_BIAS, bias.shape)
    mappings = layer_mappings(config, is_hugging_face=False)
    names = {name for name in weights.names if name.startswith("special:")}
    names |= {_SHARED, _SOURCE, _TARGET, _OUTPUT, _OUTPUT_KERNEL, _OUTPUT_BIAS}
    model = load_transformer(config, weights, mappings, names)
    set_embeddings(model, embeddings, bias, source, target)
    source_proto = source.proto
    # Text for other vocabularies than Marian's own has OPUS-MT's normalization.
    if not _read_file_names(decoder_options, "vocabs")[0].endswith(_SPM):
        source_proto = add_kind(source_proto, OPUS_MT)
    elif any(re.fullmatch(TAG, piece) for piece in vocabs[0]):
        warnings.append(
            f"{spm_paths[0].name} has tags: no ▁ precedes them here"
        )
    vocabulary = join_vocabularies(source_proto, target.proto)
    return PretrainedModel(model, vocabulary, (None, None), warnings)


def _find_decoder_file(folder):
    """Returns the path of decoder.yml, or of Marian's MODEL.decoder.yml."""
    path = folder / _DECODER_FILE
    others = [*folder.glob(f"*.{_DECODER_FILE}")]
    return others[0] if len(others) == 1 and not path.exists() else path


def _find_model(folder, decoder_options):
    names = _read_file_names(decoder_options, "models")
    path = folder / (names[0] if len(names) == 1 else "")
    if path.suffix != ".npz" or not path.exists():
        # Files converted by marian-conv are not supported.
        files = sorted(path.name for path in folder.glob("*.npz"))
        expected = f"one .npz file of {folder}, which has {files},"
        raise wrong_value_error(_DECODER_FILE, "models", names, expected)
    return path


def _read_file_names(decoder_options, name):
    """Returns a list of file names, without folders of another machine."""
    paths = decoder_options.get(name, [])
    paths = [paths] if isinstance(paths, str) else paths
    if isinstance(paths, list) and all(isinstance(p, str) for p in paths):
        file_names = [pathlib.PurePosixPath(path).name for path in paths]
        if not {"", ".."} & {*file_names}:
            return file_names
    raise wrong_value_error(_DECODER_FILE, name, paths, "a list of files")


def _read_vocabs(folder, decoder_options, sizes):
    """Returns the dicts of both sides, piece to id, and warnings.

    Between them it returns the paths of both SentencePiece models.
    """
    names = _read_file_names(decoder_options, "vocabs")
    if len(names) != 2:
        expected = "two files, of the source and of the target,"
        raise wrong_value_error(_DECODER_FILE, "vocabs", names, expected)
    vocabs, spm_paths, warnings = [], [], []
    for side, name, size in zip(("source", "target"), names, sizes):
        path = folder / name
        if path.suffix == _SPM:
            vocab = read_piece_ids(read_bytes(path), path)
            spm_paths.append(path)
        else:
            vocab = _read_yaml_vocab(path)
            spm_paths.append(folder / f"{side}{_SPM}")
        if not {_END, _UNKNOWN} <= vocab.keys():
            raise InputError(f"{path} must have {_END} and {_UNKNOWN}.")
        vocab, more_warnings = complete_vocab(vocab, size, path)
        vocabs.append(vocab)
        warnings += more_warnings
    return vocabs, spm_paths, warnings


def _read_yaml_vocab(path):
    vocab = parse_yaml(read_bytes(path), path)
    for piece, text in vocab.items():
        if not re.fullmatch("[0-9]{1,9}", str(text)):
            raise wrong_value_error(path, piece[:40], text, "an id")
        vocab[piece] = int(text)
    return vocab


def _convert_vocab(vocab, path):
    """Returns the Vocabulary of a vocab and a SentencePiece file."""
    unknown_id, begin_id, end_id = vocab[_UNKNOWN], None, vocab[_END]
    spm = read_bytes(path)
    return make_vocabulary(vocab, spm, unknown_id, begin_id, end_id, path)


def _read_vocabulary_sizes(options):
    name = "dim-vocabs"
    sizes = options.get(name)
    if not isinstance(sizes, list) or len(sizes) != 2:
        expected = "the two sizes of the vocabularies"
        raise wrong_value_error(_MODEL_OPTIONS, name, sizes, expected)
    return [_read_size({name: size}, name, MAX_VOCABULARY) for size in sizes]


def _read_config(options, **other_fields):
    """Returns the TransformerConfig for the options of a model."""
    d_ff = _read_size(options, "transformer-dim-ffn", 2**20)
    name = "transformer-decoder-dim-ffn"
    if options.get(name, "0") not in ("0", str(d_ff)):
        expected = f"{d_ff} as transformer-dim-ffn"
        raise wrong_value_error(_MODEL_OPTIONS, name, options[name], expected)
    activation = options.get("transformer-ffn-activation", "swish")
    return make_transformer_config(
        _MODEL_OPTIONS,
        _OPTION_NAMES,
        d_model=_read_size(options, "dim-emb", 2**16),
        num_heads=_read_size(options, "transformer-heads", 2**12),
        encoder_layers=_read_size(options, "enc-depth", 1000),
        decoder_layers=_read_size(options, "dec-depth", 1000),
        d_ff=d_ff,
        # Marian's alignments are from one head.
        alignment_layer=_read_alignment_layer(options),
        alignment_heads=1,
        # Marian's Transformer has 1e-6, its other networks 1e-9.
        layer_norm_epsilon=1e-6,
        activation=_ACTIVATIONS[activation],
        output_bias=True,
        sinusoid_rates="marian",
        **other_fields,
    )


def _read_alignment_layer(options):
    name = "transformer-guided-alignment-layer"
    if options.get(name, "last") == "last":
        return -1
    return _read_size(options, name, _read_size(options, "dec-depth", 1000))


def _read_size(options, name, maximum):
    return read_int(options, name, maximum, _MODEL_OPTIONS)


def _read_weight_tying(options):
    """Returns `share_embeddings`, and whether both sides have one matrix."""
    is_all = _is_enabled(options, "tied-embeddings-all")
    ties_output = is_all or _is_enabled(options, "tied-embeddings")
    ties_sides = is_all or _is_enabled(options, "tied-embeddings-src")
    if not ties_output:
        return "none", ties_sides
    return "all" if ties_sides else "target-softmax", ties_sides


def _is_enabled(options, name):
    return options.get(name, "false") not in FALSE_STRINGS


def _read_search_fields(decoder_options):
    """Returns the fields of a TransformerConfig for a search."""
    factor = "max-length-factor", 0, 100, _DECODER_FILE, 3
    factor = read_number(decoder_options, *factor)
    extra_tokens = (max(factor, 1.0) - 1) * _REFERENCE_LENGTH
    return {
        "beam_size": read_int(
            decoder_options, "beam-size", MAX_BEAMS, _DECODER_FILE, 12
        ),
        "alpha": read_number(
            decoder_options,
            *("normalize", MIN_ALPHA, MAX_ALPHA, _DECODER_FILE, 0),
        ),
        "length_penalty": "power",
        "stop_criterion": "k_finished",
        "max_extra_tokens": math.ceil(extra_tokens),
    }


def _read_embeddings(weights, config, has_shared_embedding, sizes):
    """Returns the matrices [V', D] by name: source, target, output."""
    source, target = _SOURCE, _TARGET
    if has_shared_embedding:
        source = target = _SHARED
    source_shape, target_shape = ((size, config.d_model) for size in sizes)
    embeddings = {"target": weights.read(target, target_shape)}
    if config.share_embeddings != "all":
        embeddings["source"] = weights.read(source, source_shape)
    if config.share_embeddings == "none":
        if _OUTPUT_KERNEL in weights.names:
            output = weights.read(_OUTPUT_KERNEL, target_shape[::-1])
            embeddings["output"] = output.T
        else:
            embeddings["output"] = weights.read(_OUTPUT, target_shape)
    return embeddings


class _TextLoader(_BASE_LOADER):
    """Loads every scalar as text.

    SafeLoader reads the piece `no` as False, and `1_000` as a number.
    """

    def construct_mapping(self, node, deep=False):
        fields = super().construct_mapping(node, deep)
        if len(fields) != len(node.value):
            raise ValueError("it has a name twice")
        return fields


def parse_yaml(
    content: bytes, name: str | os.PathLike
) -> dict[str, typing.Any]:
    """Returns the mapping of a YAML file, str to str, list or dict.

    Raises InputError for references, by which a small file stands for an
    endless one, and for deep nesting: Marian writes neither.
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
