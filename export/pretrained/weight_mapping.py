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

import operator
import typing

import numpy as np
from keras import ops

import keras_transformer as kt
from export.common.errors import InputError
from export.pretrained.vocabulary import MISSING_ROW

# Bias of an id that must not count in the softmax.
EXCLUDED_BIAS = -1e9
MAX_VOCABULARY = 2**24


class PretrainedModel(typing.NamedTuple):
    """A pretrained model read from a directory."""

    model: kt.Transformer
    # Content of a `vocabulary.model`.
    vocabulary: bytes
    # Codes of source and target, None if the directory lacks them.
    languages: tuple
    # Settings of the directory that have no effect here.
    notes: list[str]


class WeightSlot(typing.NamedTuple):
    """Maps one array of a checkpoint to a slice of a weight."""

    # In the checkpoint.
    name: str
    # "encoder" or "decoder", number of the layer, and its attribute.
    place: tuple
    # Slice of the weight's last axis, and its shape, [in, out] or [width].
    columns: slice
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

    def weight(self, model):
        """Returns the weight in a Transformer."""
        side, layer, attribute = self.place
        layer = getattr(model, side).layers[layer]
        return operator.attrgetter(attribute)(layer)

    def permute(self, part, order):
        """Returns the slice with the stream's columns in an order."""
        part = part[order] if self.reads_stream else part
        return part[..., order] if self.writes_stream else part


_SELF, _CROSS = "self_attention", "cross_attention"
_QUERY_KEY_VALUE = f"{_SELF}.query_key_value"
_OUT, _NORM = "output_projection", "_residual.layer_norm"
# Attribute, index of the part in the weight, and the name in a MarianMTModel's
# `state_dict` and in Marian's `model.npz`.
_LAYER = (
    (_QUERY_KEY_VALUE, 0, "self_attn.q_proj", "self_{}q"),
    (_QUERY_KEY_VALUE, 1, "self_attn.k_proj", "self_{}k"),
    (_QUERY_KEY_VALUE, 2, "self_attn.v_proj", "self_{}v"),
    (f"{_SELF}.{_OUT}", 0, "self_attn.out_proj", "self_{}o"),
    (f"{_SELF}{_NORM}", 0, "self_attn_layer_norm", "self_Wo_ln"),
    (f"{_CROSS}.query", 0, "encoder_attn.q_proj", "context_{}q"),
    (f"{_CROSS}.key_value", 0, "encoder_attn.k_proj", "context_{}k"),
    (f"{_CROSS}.key_value", 1, "encoder_attn.v_proj", "context_{}v"),
    (f"{_CROSS}.{_OUT}", 0, "encoder_attn.out_proj", "context_{}o"),
    (f"{_CROSS}{_NORM}", 0, "encoder_attn_layer_norm", "context_Wo_ln"),
    ("feed_forward.inner_projection", 0, "fc1", "ffn_{}1"),
    (f"feed_forward.{_OUT}", 0, "fc2", "ffn_{}2"),
    (f"feed_forward{_NORM}", 0, "final_layer_norm", "ffn_ffn_ln"),
)


def layer_slots(config, is_hugging_face):
    """Returns the WeightSlots of all arrays but embeddings and output bias.

    Their names are those of a MarianMTModel, or of Marian's `model.npz`.
    """
    sides = ("encoder", config.num_layers), ("decoder", config.decoder_layers)
    return [
        slot
        for side, num_layers in sides
        for layer in range(num_layers)
        for row in _LAYER
        if side == "decoder" or not row[0].startswith(_CROSS)
        for slot in _make_slots(config, side, layer, row, is_hugging_face)
    ]


def _make_slots(config, side, layer, row, is_hugging_face):
    """Returns the slots of a matrix and its bias, or of a layer norm."""
    attribute, number, stem, marian_stem = row
    is_norm, width = attribute.endswith(_NORM), config.d_model
    if is_hugging_face:
        stem = f"model.{side}.layers.{layer}.{stem}"
        names = f"{stem}.weight", f"{stem}.bias"
    else:
        stem = f"{side}_l{layer + 1}_{marian_stem}"
        names = stem.format("W"), stem.format("b")
        names = (f"{stem}_scale", f"{stem}_bias") if is_norm else names
    if is_norm:
        places = [(side, layer, f"{attribute}.{x}") for x in ("gamma", "beta")]
        return [
            WeightSlot(*slot, slice(width), (width,), writes_stream=True)
            for slot in zip(names, places)
        ]
    is_attention = not attribute.startswith("feed_forward")
    inner = config.num_heads * config.d_k if is_attention else config.d_ff
    writes = attribute.endswith(_OUT)
    shape = (inner, width) if writes else (width, inner)
    columns = slice(number * inner, number * inner + shape[1])
    matrix, bias = (
        (side, layer, f"{attribute}.{x}") for x in ("kernel", "bias")
    )
    flags = not writes, writes, is_hugging_face
    return [
        WeightSlot(names[0], matrix, columns, shape, *flags),
        WeightSlot(names[1], bias, columns, shape[1:], writes_stream=writes),
    ]


def marian_columns(width):
    """Returns the permutation `columns` with here = marian[columns]."""
    return np.arange(width).reshape(2, width // 2).T.ravel()


def load_transformer(config, checkpoint, slots, other_names):
    """Returns a Transformer with the layers of a WeightsFile.

    `slots` are the WeightSlots of all layers, `other_names` the names of the
    other arrays. InputError if an array is missing or of another network.
    """
    checkpoint.validate_names({slot.name for slot in slots} | other_names)
    # Checks shapes first, so that no network of a hostile size is built.
    for slot in slots:
        checkpoint.check(slot.name, slot.stored_shape)
    model = kt.Transformer(config)
    columns = marian_columns(config.d_model)
    for slot in slots:
        part = checkpoint.read(slot.name, slot.stored_shape)
        part = part.T if slot.is_transposed else part
        weight = slot.weight(model)
        value = np.array(ops.convert_to_numpy(weight))
        value[..., slot.columns] = slot.permute(part, columns)
        weight.assign(value)
    return model


def read_layers(model, slots):
    """Returns a dict of the arrays of WeightSlots by name, float32."""
    columns = np.argsort(marian_columns(model.config.d_model))
    arrays = {}
    for slot in slots:
        weight = ops.convert_to_numpy(slot.weight(model))
        part = np.asarray(weight, np.float32)[..., slot.columns]
        part = slot.permute(part, columns)
        part = part.T if slot.is_transposed else part
        arrays[slot.name] = np.ascontiguousarray(part)
    return arrays


def set_embeddings(model, tables, bias, source, target):
    """Sets the embeddings and the output bias of a Transformer.

    `tables` are the checkpoint's matrices [V', D] by name: "source", "target"
    and "output", without tied ones. `bias` is float32 [V'], `source` and
    `target` are Vocabularies.
    """
    columns = marian_columns(model.config.d_model)
    sides = {"source": source, "target": target, "output": target}
    for name, table in tables.items():
        embedding = getattr(model, f"{name}_embedding")
        rows = _select_rows(table, sides[name].rows, 0.0)
        embedding.embeddings.assign(rows[:, columns])
    if model.config.output_bias:
        biases = _select_rows(bias, target.rows, EXCLUDED_BIAS)
        model.output_embedding.bias.assign(biases)


def _select_rows(values, rows, missing):
    """Returns values [V', ...] in the order of the ids, [V, ...]."""
    selected = values[np.maximum(rows, 0)]
    selected[rows == MISSING_ROW] = missing
    return selected


def make_config(file, width, num_heads, encoder, decoder, **fields):
    """Returns the TransformerConfig of a Marian network.

    `encoder` and `decoder` are numbers of layers; errors name the `file`.
    """
    if width % num_heads:
        raise InputError(
            f"{file}: expected a width that {num_heads} attention heads "
            f"divide, got {width}."
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
