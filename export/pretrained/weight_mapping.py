"""Which array of a Marian model is which weight of a Transformer.

Both are the network of the paper, stored in different ways:

- Marian's positions are [sines | cosines] in halves, and those of this package
  have sine and cosine of a rate side by side. Instead of a second kind of
  positions the residual stream is permuted: column 2i is Marian's i, and
  column 2i + 1 is Marian's D/2 + i, wherever a matrix reads the stream or
  writes to it. Heads and inner layers keep their order, so that the result is
  the same up to the order of summation.
- Queries, keys and values are one matrix here.
- PyTorch stores matrices transposed.
"""

import typing

import numpy as np
from keras import ops


class WeightSlot(typing.NamedTuple):
    """Where one array of a checkpoint lies in a Transformer.

    Attributes:
        name: name of the array.
        path: path of the weight: attribute names, and an index into a list.
        columns: slice of the last axis of the weight.
        shape: shape of the array, as [in, out] or [width].
        reads_stream: whether its rows are of the residual stream.
        writes_stream: whether its last axis is of the residual stream.
        is_transposed: whether the checkpoint has it as [out, in].
    """

    name: str
    path: tuple
    columns: slice
    shape: tuple
    reads_stream: bool = False
    writes_stream: bool = False
    is_transposed: bool = False

    @property
    def stored_shape(self):
        """The shape of the array in the checkpoint."""
        return self.shape[::-1] if self.is_transposed else self.shape


# Block, weight, number of the part in it, and the name in a MarianMTModel's
# `state_dict` and in a `model.npz` of Marian.
_MATRICES = (
    ("self_attention", "query_key_value", 0, "self_attn.q_proj", "self_{}q"),
    ("self_attention", "query_key_value", 1, "self_attn.k_proj", "self_{}k"),
    ("self_attention", "query_key_value", 2, "self_attn.v_proj", "self_{}v"),
    (
        "self_attention",
        "output_projection",
        0,
        "self_attn.out_proj",
        "self_{}o",
    ),
    ("cross_attention", "query", 0, "encoder_attn.q_proj", "context_{}q"),
    ("cross_attention", "key_value", 0, "encoder_attn.k_proj", "context_{}k"),
    ("cross_attention", "key_value", 1, "encoder_attn.v_proj", "context_{}v"),
    (
        "cross_attention",
        "output_projection",
        0,
        "encoder_attn.out_proj",
        "context_{}o",
    ),
    ("feed_forward", "inner_projection", 0, "fc1", "ffn_{}1"),
    ("feed_forward", "output_projection", 0, "fc2", "ffn_{}2"),
)
_NORMS = (
    ("self_attention", "self_attn_layer_norm", "self_Wo_ln"),
    ("cross_attention", "encoder_attn_layer_norm", "context_Wo_ln"),
    ("feed_forward", "final_layer_norm", "ffn_ffn_ln"),
)


def layer_slots(config, is_hugging_face):
    """Returns the Slots of all arrays but embeddings and output bias.

    Args:
        config: TransformerConfig of a post-norm network with biases.
        is_hugging_face: whether the names are those of a MarianMTModel's
            `state_dict`; else of Marian's `model.npz`.
    """
    slots = []
    for side, num_layers in (
        ("encoder", config.num_layers),
        ("decoder", config.decoder_layers),
    ):
        for index in range(num_layers):
            for block, weight, number, *stems in _MATRICES:
                names = _array_names(side, index, stems, is_hugging_face)
                path = side, "layers", index, block, weight
                slots += _matrix_slots(
                    config, names, path, number, is_hugging_face
                )
            for block, *stems in _NORMS:
                names = _array_names(side, index, stems, is_hugging_face)
                path = side, "layers", index, f"{block}_residual"
                slots += _norm_slots(config.d_model, names, path)
    # An encoder has no cross-attention.
    return [
        slot
        for slot in slots
        if slot.path[0] == "decoder" or "cross" not in slot.path[3]
    ]


def _array_names(side, index, stems, is_hugging_face):
    """Returns the names of a matrix or scale, and of its bias."""
    if is_hugging_face:
        stem = f"model.{side}.layers.{index}.{stems[0]}"
        return f"{stem}.weight", f"{stem}.bias"
    stem = f"{side}_l{index + 1}_{stems[1]}"
    if "{}" in stem:
        return stem.format("W"), stem.format("b")
    return f"{stem}_scale", f"{stem}_bias"


def _matrix_slots(config, names, path, number, is_transposed):
    *path, block, weight = path
    is_attention = block != "feed_forward"
    inner = config.num_heads * config.d_k if is_attention else config.d_ff
    writes = weight == "output_projection"
    shape = (inner, config.d_model) if writes else (config.d_model, inner)
    columns = slice(number * inner, number * inner + shape[1])
    matrix, bias = names
    kernel_path = (*path, block, weight, "kernel")
    bias_path = (*path, block, weight, "bias")
    streams = not writes, writes
    return [
        WeightSlot(
            matrix, kernel_path, columns, shape, *streams, is_transposed
        ),
        WeightSlot(bias, bias_path, columns, shape[1:], writes_stream=writes),
    ]


def _norm_slots(width, names, path):
    shape, columns = (width,), slice(0, width)
    paths = [(*path, "layer_norm", weight) for weight in ("gamma", "beta")]
    return [
        WeightSlot(name, path, columns, shape, writes_stream=True)
        for name, path in zip(names, paths)
    ]


def marian_columns(width):
    """Returns Marian's column of each column here: here = marian[order]."""
    return np.arange(width).reshape(2, width // 2).T.ravel()


def from_stored(slot, array):
    """Returns an array of a checkpoint as it lies in the weight."""
    if slot.is_transposed:
        array = array.T
    if slot.reads_stream:
        array = array[marian_columns(len(array))]
    if slot.writes_stream:
        array = array[..., marian_columns(array.shape[-1])]
    return array


def to_stored(slot, array):
    """Undoes `from_stored`."""
    if slot.reads_stream:
        array = array[np.argsort(marian_columns(len(array)))]
    if slot.writes_stream:
        array = array[..., np.argsort(marian_columns(array.shape[-1]))]
    return np.ascontiguousarray(array.T if slot.is_transposed else array)


def _weight_at(model, path):
    weight = model
    for step in path:
        is_index = isinstance(step, int)
        weight = weight[step] if is_index else getattr(weight, step)
    return weight


def set_layers(model, slots, read):
    """Sets the weights in the layers of a Transformer.

    Args:
        model: Transformer.
        slots: list of Slot, of all its layers.
        read: function of a name and a shape to that array.
    """
    for path in dict.fromkeys(slot.path for slot in slots):
        weight = _weight_at(model, path)
        value = np.empty(weight.shape, np.float32)
        for slot in slots:
            if slot.path == path:
                array = read(slot.name, slot.stored_shape)
                value[..., slot.columns] = from_stored(slot, array)
        weight.assign(value)


def read_layers(model, slots):
    """Returns a dict, name to array of a checkpoint, of a Transformer."""
    arrays = {}
    for slot in slots:
        weight = ops.convert_to_numpy(_weight_at(model, slot.path))
        part = np.asarray(weight, np.float32)[..., slot.columns]
        arrays[slot.name] = to_stored(slot, part)
    return arrays
