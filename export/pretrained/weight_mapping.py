"""Maps the arrays of a Marian model to the weights of a Transformer.

Both are the network of the paper, with different storage:

- Marian's positions are [sines | cosines] in halves; in this package the sine
  and cosine of a rate are adjacent. Instead of a second kind of positions the
  residual stream is permuted: column 2i is Marian's i, and column 2i + 1 is
  Marian's D/2 + i, wherever a matrix reads or writes the stream. Heads and
  inner layers keep their order, so that the result is the same up to the order
  of summation.
- Queries, keys and values are one matrix here.
- PyTorch stores matrices transposed.
"""

import typing

import numpy as np
from keras import ops

import keras_transformer as kt
from export.common.errors import InputError
from export.pretrained.vocabulary import MISSING_ROW

# Bias of an id that must not count in the softmax.
EXCLUDED = -1e9
MAX_VOCABULARY = 2**24


class PretrainedModel(typing.NamedTuple):
    """A pretrained model read from a directory."""

    model: kt.Transformer
    # Content of a `vocabulary.model`.
    vocabulary: bytes
    # Language codes, if the directory has them.
    source_language: str | None
    target_language: str | None
    # Settings of the directory that have no effect here.
    notes: list[str]


class WeightSlot(typing.NamedTuple):
    """Maps one array of a checkpoint to a slice of a weight."""

    # Name of the array in the checkpoint.
    name: str
    # Path to the weight: attribute names, and an index into a list.
    path: tuple
    # Slice of the weight's last axis.
    columns: slice
    # Shape of the array, [in, out] or [width].
    shape: tuple
    # Whether its rows, or its last axis, belong to the residual stream.
    reads_stream: bool = False
    writes_stream: bool = False
    # Whether the checkpoint stores it as [out, in].
    is_transposed: bool = False

    @property
    def stored_shape(self):
        """Shape of the array in the checkpoint."""
        return self.shape[::-1] if self.is_transposed else self.shape


_FUSED, _OUT, _NORM = "query_key_value", "output_projection", "layer_norm"
# Block, weight, index of the part in the weight, and the name in a
# MarianMTModel's `state_dict` and in Marian's `model.npz`.
_LAYER = (
    ("self_attention", _FUSED, 0, "self_attn.q_proj", "self_{}q"),
    ("self_attention", _FUSED, 1, "self_attn.k_proj", "self_{}k"),
    ("self_attention", _FUSED, 2, "self_attn.v_proj", "self_{}v"),
    ("self_attention", _OUT, 0, "self_attn.out_proj", "self_{}o"),
    ("self_attention", _NORM, 0, "self_attn_layer_norm", "self_Wo_ln"),
    ("cross_attention", "query", 0, "encoder_attn.q_proj", "context_{}q"),
    ("cross_attention", "key_value", 0, "encoder_attn.k_proj", "context_{}k"),
    ("cross_attention", "key_value", 1, "encoder_attn.v_proj", "context_{}v"),
    ("cross_attention", _OUT, 0, "encoder_attn.out_proj", "context_{}o"),
    ("cross_attention", _NORM, 0, "encoder_attn_layer_norm", "context_Wo_ln"),
    ("feed_forward", "inner_projection", 0, "fc1", "ffn_{}1"),
    ("feed_forward", _OUT, 0, "fc2", "ffn_{}2"),
    ("feed_forward", _NORM, 0, "final_layer_norm", "ffn_ffn_ln"),
)


def layer_slots(config, is_hugging_face):
    """Returns the WeightSlots of all arrays but embeddings and output bias.

    The network must be post-norm with biases. The names are those of a
    MarianMTModel's `state_dict`, or of Marian's `model.npz`.
    """
    slots = []
    for side, num_layers in (
        ("encoder", config.num_layers),
        ("decoder", config.decoder_layers),
    ):
        for index in range(num_layers):
            for block, weight, number, *stems in _LAYER:
                if side == "encoder" and block == "cross_attention":
                    continue
                names = _array_names(side, index, stems, is_hugging_face)
                block = f"{block}_residual" if weight == _NORM else block
                path = side, "layers", index, block, weight
                slots += _make_slots(
                    config, names, path, number, is_hugging_face
                )
    return slots


def _array_names(side, index, stems, is_hugging_face):
    """Returns the names of a matrix or scale, and of its bias."""
    if is_hugging_face:
        stem = f"model.{side}.layers.{index}.{stems[0]}"
        return f"{stem}.weight", f"{stem}.bias"
    stem = f"{side}_l{index + 1}_{stems[1]}"
    if "{}" in stem:
        return stem.format("W"), stem.format("b")
    return f"{stem}_scale", f"{stem}_bias"


def _make_slots(config, names, path, number, is_transposed):
    """Returns the slots of a matrix and its bias, or of a layer norm."""
    width, block, weight = config.d_model, *path[-2:]
    if weight == _NORM:
        return [
            WeightSlot(
                *(name, (*path, attribute), slice(width), (width,)),
                writes_stream=True,
            )
            for name, attribute in zip(names, ("gamma", "beta"))
        ]
    is_attention = block != "feed_forward"
    inner = config.num_heads * config.d_k if is_attention else config.d_ff
    writes = weight == _OUT
    shape = (inner, width) if writes else (width, inner)
    columns = slice(number * inner, number * inner + shape[1])
    matrix, bias = names
    return [
        WeightSlot(
            *(matrix, (*path, "kernel"), columns, shape),
            *(not writes, writes, is_transposed),
        ),
        WeightSlot(
            *(bias, (*path, "bias"), columns, shape[1:]), writes_stream=writes
        ),
    ]


def marian_columns(width):
    """Returns the permutation `columns` with here = marian[columns]."""
    return np.arange(width).reshape(2, width // 2).T.ravel()


def _reorder(slot, array, columns):
    if slot.reads_stream:
        array = array[columns]
    return array[..., columns] if slot.writes_stream else array


def _get_weight(model, path):
    weight = model
    for step in path:
        is_index = isinstance(step, int)
        weight = weight[step] if is_index else getattr(weight, step)
    return weight


def load_transformer(config, checkpoint, slots, other_names):
    """Returns a Transformer with the layers of a checkpoint.

    `slots` are the WeightSlots of all layers, `other_names` the set of names of
    the other arrays in the checkpoint.

    Raises:
        InputError: an array is missing, damaged or of another network.
    """
    checkpoint.validate_names({slot.name for slot in slots} | other_names)
    # Checks shapes first, so that no network of a hostile size is built.
    for slot in slots:
        checkpoint.check(slot.name, slot.stored_shape)
    model = kt.Transformer(config)
    columns = marian_columns(config.d_model)
    for path in dict.fromkeys(slot.path for slot in slots):
        weight = _get_weight(model, path)
        value = np.empty(weight.shape, np.float32)
        for slot in slots:
            if slot.path == path:
                array = checkpoint.read(slot.name, slot.stored_shape)
                array = array.T if slot.is_transposed else array
                value[..., slot.columns] = _reorder(slot, array, columns)
        weight.assign(value)
    return model


def read_layers(model, slots):
    """Returns the layers of a Transformer as arrays of a checkpoint.

    The inverse of `load_transformer`: a dict, name to array.
    """
    columns = np.argsort(marian_columns(model.config.d_model))
    arrays = {}
    for slot in slots:
        weight = ops.convert_to_numpy(_get_weight(model, slot.path))
        part = np.asarray(weight, np.float32)[..., slot.columns]
        part = _reorder(slot, part, columns)
        part = part.T if slot.is_transposed else part
        arrays[slot.name] = np.ascontiguousarray(part)
    return arrays


def set_embeddings(model, tables, bias, source, target):
    """Sets the embeddings and the output bias of a Transformer.

    `tables` is a dict of the checkpoint's matrices [V', D] of the "source",
    "target" and "output", without those that are tied to another. `bias`,
    float32 [V'], is ignored if the model has none. `source` and `target` are
    Vocabularies.
    """
    columns = marian_columns(model.config.d_model)
    sides = {"source": source, "target": target, "output": target}
    for name, table in tables.items():
        embedding = getattr(model, f"{name}_embedding")
        rows = _select_rows(table, sides[name].rows, 0.0)
        embedding.embeddings.assign(rows[:, columns])
    if model.config.output_bias:
        biases = _select_rows(bias, target.rows, EXCLUDED)
        model.output_embedding.bias.assign(biases)


def _select_rows(values, rows, missing):
    """Returns values [V', ...] in the order of the ids, [V, ...]."""
    selected = values[np.maximum(rows, 0)]
    selected[rows == MISSING_ROW] = missing
    return selected


def make_config(file, width, num_heads, layers, **fields):
    """Returns the TransformerConfig of a Marian network.

    `file` is named in errors; `layers` are the numbers of encoder and decoder
    layers, `fields` other fields of the TransformerConfig.
    """
    encoder, decoder = layers
    if width % num_heads:
        raise InputError(
            f"{file} has a width of {width}, which its {num_heads} attention "
            "heads do not divide."
        )
    try:
        return kt.TransformerConfig(
            num_layers=encoder,
            num_decoder_layers=0 if decoder == encoder else decoder,
            d_model=width,
            num_heads=num_heads,
            d_k=width // num_heads,
            d_v=width // num_heads,
            norm="post",
            **fields,
        )
    except ValueError as error:
        raise InputError(f"{file} cannot be used: {error}") from error
