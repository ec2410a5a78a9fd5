"""Which array of a Marian model is which weight of ours.

Both are the paper's network, stored in three other ways:

- Marian keeps positions as [sines | cosines] in halves, and ours have sine
  and cosine of a rate side by side. Instead of a second kind of positions the
  residual stream is put into our order: ours[2i] = theirs[i], ours[2i + 1] =
  theirs[D/2 + i], wherever a matrix reads the stream or writes to it. Heads
  and inner layers are untouched, so that the result is the same up to the
  order of summation.
- Queries, keys and values are one matrix in ours.
- PyTorch keeps matrices transposed.
"""

import typing

import numpy as np
from keras import ops


class Place(typing.NamedTuple):
    """Where one array of theirs lies in ours.

    Attributes:
        name: of their array.
        path: of our weight: attribute names and, of a list, its index.
        columns: slice of our weight's last axis.
        shape: of the array, as [in, out] or [width].
        reads_stream: whether its rows are of the residual stream.
        writes_stream: whether its last axis is of the residual stream.
        is_transposed: whether theirs is [out, in].
    """

    name: str
    path: tuple
    columns: slice
    shape: tuple
    reads_stream: bool
    writes_stream: bool
    is_transposed: bool

    @property
    def their_shape(self):
        """The shape that their array has."""
        return self.shape[::-1] if self.is_transposed else self.shape


class Names(typing.NamedTuple):
    """How a program names the arrays of a layer.

    Attributes:
        first: number of the first layer.
        is_transposed: whether matrices are stored as [out, in].
        name: function of side, number, block, part and kind to a name; see
            `hugging_face_name`.
    """

    first: int
    is_transposed: bool
    name: typing.Callable


_HF_BLOCKS = {
    "self_attention": ("self_attn", "self_attn_layer_norm"),
    "cross_attention": ("encoder_attn", "encoder_attn_layer_norm"),
    "feed_forward": ("", "final_layer_norm"),
}
_HF_PARTS = {
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "output": "out_proj",
}
_HF_FEED_FORWARD = {"inner": "fc1", "output": "fc2"}


def hugging_face_name(side, number, block, part, kind):
    """Returns the name in a MarianMTModel's `state_dict`.

    Args:
        side: "encoder" or "decoder".
        number: of the layer.
        block: "self_attention", "cross_attention" or "feed_forward".
        part: "query", "key", "value", "output", "inner", or "norm".
        kind: "weight" or "bias".
    """
    stem, norm = _HF_BLOCKS[block]
    if part == "norm":
        part = norm
    elif block == "feed_forward":
        part = _HF_FEED_FORWARD[part]
    else:
        part = f"{stem}.{_HF_PARTS[part]}"
    return f"model.{side}.layers.{number}.{part}.{kind}"


_MARIAN_BLOCKS = {"self_attention": "self", "cross_attention": "context"}
_MARIAN_PARTS = {"query": "q", "key": "k", "value": "v", "output": "o"}


def marian_name(side, number, block, part, kind):
    """Returns the name in Marian's own `model.npz`; see the other."""
    letter = {"weight": "W", "bias": "b"}[kind]
    if block == "feed_forward":
        stem = "ffn"
        tail = letter + {"inner": "1", "output": "2", "norm": ""}[part]
        norm = "ffn_ln"
    else:
        stem = _MARIAN_BLOCKS[block]
        tail = letter + _MARIAN_PARTS.get(part, "")
        norm = "Wo_ln"
    if part == "norm":
        tail = f"{norm}_{'scale' if kind == 'weight' else 'bias'}"
    return f"{side}_l{number}_{stem}_{tail}"


HUGGING_FACE = Names(0, True, hugging_face_name)
MARIAN = Names(1, False, marian_name)


def places_of_layers(config, names):
    """Returns the Places of all arrays but embeddings and output bias.

    Args:
        config: TransformerConfig of a model that they can hold.
        names: Names.
    """
    places = []
    for side, layers in (
        ("encoder", config.num_layers),
        ("decoder", config.decoder_layers),
    ):
        blocks = ["self_attention", "cross_attention", "feed_forward"]
        if side == "encoder":
            blocks.remove("cross_attention")
        for index in range(layers):
            for block in blocks:
                for part in _parts(config, block):
                    places += _places(names, side, index, block, part)
    return places


_INNER, _OUTPUT = "inner_projection", "output_projection"


class _Part(typing.NamedTuple):
    """A matrix of ours, or what one of theirs is of it, with its bias.

    Attributes: `part` is its name, `layer` our Projection that holds it.
    """

    part: str
    layer: str
    offset: int
    inputs: int
    outputs: int
    reads_stream: bool
    writes_stream: bool


def _parts(config, block):
    width, heads = config.d_model, config.num_heads * config.d_k
    if block == "feed_forward":
        return [
            _Part("inner", _INNER, 0, width, config.d_ff, True, False),
            _Part("output", _OUTPUT, 0, config.d_ff, width, False, True),
            _Part("norm", "norm", 0, 0, width, False, True),
        ]
    if block == "self_attention":
        where = {
            "query": ("query_key_value", 0),
            "key": ("query_key_value", heads),
            "value": ("query_key_value", 2 * heads),
        }
    else:
        where = {
            "query": ("query", 0),
            "key": ("key_value", 0),
            "value": ("key_value", heads),
        }
    return [
        *(
            _Part(part, layer, offset, width, heads, True, False)
            for part, (layer, offset) in where.items()
        ),
        _Part("output", _OUTPUT, 0, heads, width, False, True),
        _Part("norm", "norm", 0, 0, width, False, True),
    ]


def _places(names, side, index, block, part):
    """Returns the Places of a matrix and its bias, or of a norm's two."""
    layer = (side, "layers", index)
    number = names.first + index

    def name(kind):
        return names.name(side, number, block, part.part, kind)

    columns = slice(part.offset, part.offset + part.outputs)
    of_vector = (columns, (part.outputs,), False, part.writes_stream, False)
    if part.part == "norm":
        path = (*layer, f"{block}_residual", "layer_norm")
        return [
            Place(name("weight"), (*path, "gamma"), *of_vector),
            Place(name("bias"), (*path, "beta"), *of_vector),
        ]
    path = (*layer, block, part.layer)
    return [
        Place(
            name("weight"),
            (*path, "kernel"),
            columns,
            (part.inputs, part.outputs),
            part.reads_stream,
            part.writes_stream,
            names.is_transposed,
        ),
        Place(name("bias"), (*path, "bias"), *of_vector),
    ]


def stream_order(width):
    """Returns their column of each of our columns: ours = theirs[order]."""
    return np.arange(width).reshape(2, width // 2).T.ravel()


def to_ours(place, array):
    """Returns an array of theirs as it lies in our weight."""
    if place.is_transposed:
        array = array.T
    if place.reads_stream:
        array = array[stream_order(len(array))]
    if place.writes_stream:
        array = array[..., stream_order(array.shape[-1])]
    return array


def to_theirs(place, array):
    """Returns a part of our weight as their array: `to_ours` undone."""
    if place.reads_stream:
        array = array[np.argsort(stream_order(len(array)))]
    if place.writes_stream:
        array = array[..., np.argsort(stream_order(array.shape[-1]))]
    return np.ascontiguousarray(array.T if place.is_transposed else array)


def weight_at(model, path):
    """Returns the weight of a Transformer that a Place's path names."""
    found = model
    for step in path:
        found = found[step] if isinstance(step, int) else getattr(found, step)
    return found


def set_layers(model, places, read):
    """Sets a Transformer's weights in its layers.

    Args:
        model: Transformer.
        places: list of Place, of all its layers.
        read: function of a name and a shape to that array.
    """
    paths = dict.fromkeys(place.path for place in places)
    for path in paths:
        weight = weight_at(model, path)
        value = np.empty(weight.shape, np.float32)
        for place in places:
            if place.path == path:
                array = read(place.name, place.their_shape)
                value[..., place.columns] = to_ours(place, array)
        weight.assign(value)


def read_layers(model, places):
    """Returns a dict, name to array of theirs, of a Transformer's layers."""
    arrays = {}
    for place in places:
        weight = ops.convert_to_numpy(weight_at(model, place.path))
        part = np.asarray(weight, np.float32)[..., place.columns]
        arrays[place.name] = to_theirs(place, part)
    return arrays
