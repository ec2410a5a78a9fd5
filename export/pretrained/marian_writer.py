"""Writes a directory of Marian itself, which `marian_npz_reader` reads.

Marian's decoder begins with a zero embedding, and its vocabularies have neither
padding nor a begin: both are dropped, and with them their share of the softmax.
"""

import math
import pathlib
import typing

import numpy as np
import yaml
from keras import ops

import keras_transformer as kt
from export.common.errors import InputError
from export.pretrained.config_files import ANY, split_keys, validate_config
from export.pretrained.weight_mapping import (
    EXCLUDED_BIAS,
    layer_arrays,
    layer_mappings,
    marian_columns,
)
from export.tokenizers import sentencepiece_model
from export.tokenizers.python_tokenizers import (
    find_tags,
    read_kind,
    split_vocabulary,
)
from keras_transformer.config import BEGIN_ID, END_ID, UNKNOWN_ID

ADVICE = "CTranslate2 may take this model (export.ctranslate2)"
OPTIONS = "special:model.yml"
_ACTIVATIONS = {"relu": "relu", "silu": "swish"}
# Supported values by field; other fields must have their default, which is also
# Marian's epsilon. The search is set in decoder.yml, or by its program.
_SUPPORTED_VALUES = split_keys(
    {
        "vocabulary_size source_vocabulary_size num_layers num_decoder_layers "
        "d_model d_ff num_heads d_k d_v max_positions beam_size alpha "
        "length_penalty stop_criterion max_extra_tokens alignment_layer "
        "alignment_heads": ANY,
        "activation": tuple(_ACTIVATIONS),
        "share_embeddings": ("all", "target-softmax", "none"),
        "output_bias": (False, True),
        "sinusoid_rates": ("marian",),
    }
)
# Marian's int8 products need vocabularies of a multiple of this size.
_SIZE_MULTIPLE = 8
# As in marian_npz_reader, which makes a number of tokens of the factor.
_REFERENCE_LENGTH, _LEAST_FACTOR = 128, 3.0


class MarianModel(typing.NamedTuple):
    """What the files of a Marian model hold."""

    # Float32, by Marian's names.
    arrays: dict[str, np.ndarray]
    # Content of OPTIONS.
    options: bytes
    # SentencePiece models by file name: one, or those of source and target.
    vocabularies: dict[str, bytes]
    # This package's ids in Marian's order, of source and target; after them the
    # vocabularies have unused ids up to a multiple of 8.
    ids: list[list[int]]


def make_marian_model(
    model: kt.Transformer, vocabulary: bytes, program: str = "Marian"
) -> MarianModel:
    """Returns the MarianModel that computes what a Transformer does.

    Changes the weights, in place, to equivalent ones; see
    `remove_begin_embedding`. `vocabulary` are the bytes of a
    `vocabulary.model`. Raises InputError if Marian, called `program` there,
    cannot represent the model.
    """
    config = model.config
    validate_config(config, _SUPPORTED_VALUES, program, ADVICE)
    names, protos = ["source.spm", "target.spm"], split_vocabulary(vocabulary)
    if protos[0] == protos[1]:
        names = ["vocab.spm"] * 2
    elif config.share_embeddings == "all":
        raise InputError(
            f"{program} has no two SentencePiece models for one matrix of "
            f"embeddings; {ADVICE}."
        )
    sizes = config.encoder_vocabulary_size, config.vocabulary_size
    # Without padding and the begin.
    ids = [[END_ID, UNKNOWN_ID, *range(END_ID + 1, size)] for size in sizes]
    vocabularies = {
        name: _reorder_vocabulary(proto, each, program)
        for name, proto, each in zip(names, protos, ids)
    }
    remove_begin_embedding(model)
    arrays = layer_arrays(model, layer_mappings(config, is_hugging_face=False))
    arrays |= _embedding_arrays(model, *ids)
    arrays = {name: np.atleast_2d(array) for name, array in arrays.items()}
    options = _dump_yaml(_make_options(config, *map(len, map(_pad_rows, ids))))
    return MarianModel(arrays, options + b"\0", vocabularies, ids)


def write_marian(
    model: kt.Transformer, vocabulary: bytes, folder: pathlib.Path
) -> None:
    """Writes `model.npz`, its vocabularies and `decoder.yml` to a folder.

    For the arguments and errors see `make_marian_model`.
    """
    marian, config = make_marian_model(model, vocabulary), model.config
    options = {OPTIONS: np.frombuffer(marian.options, np.int8)}
    with (folder / "model.npz").open("wb") as file:
        np.savez(file, **marian.arrays, **options)  # type: ignore[arg-type]
    for name, proto in marian.vocabularies.items():
        (folder / name).write_bytes(proto)
    names = [*marian.vocabularies]
    factor = 1 + config.max_extra_tokens / _REFERENCE_LENGTH
    decoder_options = {
        "relative-paths": True,
        "models": ["model.npz"],
        "vocabs": [names[0], names[-1]],
        "beam-size": config.beam_size,
        "normalize": config.alpha,
        "max-length-factor": max(factor, _LEAST_FACTOR),
    }
    (folder / "decoder.yml").write_bytes(_dump_yaml(decoder_options))


def remove_begin_embedding(model: kt.Transformer) -> None:
    """Makes the begin embedding zero, in place; outputs stay the same.

    Subtracting it from all target embeddings changes the logits of a position
    by one number, and all inputs of the first layers that have these embeddings
    by another vector, which their biases add again. Post-norm models only:
    without it the residual stream would keep the difference.
    """
    embeddings = model.target_embedding.embeddings
    matrix = _to_float64(embeddings)
    shift = math.sqrt(model.config.d_model) * matrix[BEGIN_ID]
    embeddings.assign(matrix - matrix[BEGIN_ID])
    is_shared = model.config.share_embeddings == "all"
    for stack in [model.encoder, model.decoder][0 if is_shared else 1 :]:
        attention = stack.layers[0].self_attention
        inputs, outputs = attention.query_key_value, attention.output_projection
        added = shift @ _to_float64(inputs.kernel)
        inputs.bias.assign(_to_float64(inputs.bias) + added)
        # The residual connection.
        outputs.bias.assign(_to_float64(outputs.bias) + shift)


def _to_float64(weight):
    return np.asarray(ops.convert_to_numpy(weight), np.float64)


def _reorder_vocabulary(proto, ids, program):
    """Returns a SentencePiece model with Marian's ids."""
    model = sentencepiece_model.ModelProto.FromString(proto)
    pieces = [*model.pieces]
    for unsupported, is_present in (
        ("sources with tags of languages", find_tags(proto)),
        ("normalization beyond SentencePiece's", read_kind(proto)),
        ("text with pieces beyond the vocabulary", len(pieces) != max(ids) + 1),
    ):
        if is_present:
            raise InputError(f"{program} has no {unsupported}; {ADVICE}.")
    del model.pieces[:]
    model.pieces.extend(pieces[i] for i in ids)
    for number in range(-len(ids) % _SIZE_MULTIPLE):
        model.pieces.add(
            piece=f"<unused{number}>", score=0.0, type=pieces[0].UNUSED
        )
    spec = model.trainer_spec
    spec.vocab_size = len(model.pieces)
    spec.eos_id, spec.unk_id, spec.bos_id, spec.pad_id = 0, 1, -1, -1
    return model.SerializeToString(deterministic=True)


def _pad_rows(rows, value=0.0):
    """Appends rows up to a multiple of 8; returns float32."""
    # Marian reads no other order of axes.
    rows = np.asarray(rows, np.float32, order="C")
    widths = [(0, -len(rows) % _SIZE_MULTIPLE), *[(0, 0)] * (rows.ndim - 1)]
    return np.pad(rows, widths, constant_values=value)


def _embedding_arrays(model, source_ids, target_ids):
    """Returns the embeddings and the output bias by name, float32."""
    columns = np.argsort(marian_columns(model.config.d_model))

    def select(embedding, ids):
        matrix = ops.convert_to_numpy(embedding.embeddings)
        return _pad_rows(matrix[ids][:, columns])

    bias = np.zeros(model.config.vocabulary_size)
    if model.output_embedding.bias is not None:
        bias = ops.convert_to_numpy(model.output_embedding.bias)
    bias = _pad_rows(bias[target_ids], EXCLUDED_BIAS)
    arrays = {"decoder_ff_logit_out_b": bias}
    target = select(model.target_embedding, target_ids)
    if model.config.share_embeddings == "all":
        return arrays | {"Wemb": target}
    source = select(model.source_embedding, source_ids)
    arrays |= {"encoder_Wemb": source, "decoder_Wemb": target}
    if model.config.share_embeddings == "none":
        output = select(model.output_embedding, target_ids)
        arrays["decoder_ff_logit_out_Wt"] = output
    return arrays


def _make_options(config, *sizes):
    """Returns Marian's options of the network."""
    share, layer = config.share_embeddings, config.alignment_attention[0]
    return {
        "type": "transformer",
        "dim-vocabs": [*sizes],
        "dim-emb": config.d_model,
        "enc-depth": config.num_layers,
        "dec-depth": config.decoder_layers,
        "transformer-heads": config.num_heads,
        "transformer-dim-ffn": config.d_ff,
        "transformer-ffn-activation": _ACTIVATIONS[config.activation],
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-decoder-autoreg": "self-attention",
        "transformer-guided-alignment-layer": str(layer),
        "tied-embeddings": share == "target-softmax",
        "tied-embeddings-all": share == "all",
        "tied-embeddings-src": False,
    }


def _dump_yaml(options):
    return yaml.safe_dump(options, sort_keys=False).encode()
