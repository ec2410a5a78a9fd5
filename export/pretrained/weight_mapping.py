"""Maps the arrays of a Marian model to the weights of a Transformer.

Both are the network of the paper, with different storage:

- Queries, keys and values are one matrix here.
- PyTorch stores matrices transposed.
- Positions are [sines | cosines] there; here the sine and cosine of a rate are
  adjacent. Therefore the columns of the residual stream are permuted wherever a
  matrix reads or writes it: columns 2i and 2i + 1 are Marian's i and D/2 + i.
  Heads and inner layers keep their order: only the order of summation differs.
"""

import itertools
import operator
import typing
from collections.abc import Mapping, Sequence

import keras
import numpy as np
from keras import ops

import keras_transformer as kt
from export.common.errors import InputError
from export.pretrained.config_files import wrong_value_error
from export.pretrained.vocabulary import MISSING_ID, Vocabulary
from keras_transformer.config import BEGIN_ID, END_ID

if typing.TYPE_CHECKING:
    from export.pretrained.weights_file import WeightsFile

# Bias of an id that must not count in the softmax.
EXCLUDED_BIAS = -1e9
MAX_VOCABULARY = 2**24
# Rows of embeddings that are set at a time.
_NUM_ROWS = 2**14
_SELF, _CROSS = "self_attention", "cross_attention"
_QUERY_KEY_VALUE = f"{_SELF}.query_key_value"
_OUT, _NORM = "output_projection", "_residual.layer_norm"
_FINAL_NORM = "final_norm"
# Attribute, index of the array in the weight's columns, and its name in a
# MarianMTModel's `state_dict` and in Marian's `model.npz`.
_LAYER_ARRAYS = (
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


class WeightMapping(typing.NamedTuple):
    """Maps one array of a checkpoint to columns of a weight."""

    # In the checkpoint.
    name: str
    # "encoder" or "decoder", index of the layer, None for the stack itself, and
    # an attribute.
    weight_path: tuple[str, int | None, str]
    # Slice of the weight's last axis, and its shape, [in, out] or [width].
    columns: slice
    shape: tuple[int, ...]
    # Whether the checkpoint stores it as [out, in].
    is_transposed: bool = False

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape of the array in the checkpoint."""
        return self.shape[::-1] if self.is_transposed else self.shape

    def weight(self, model: kt.Transformer) -> keras.Variable:
        """Returns the weight of a Transformer."""
        side, index, attribute = self.weight_path
        stack = getattr(model, side)
        layer = stack if index is None else stack.layers[index]
        return operator.attrgetter(attribute)(layer)

    def permute(self, array: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Returns the array with the residual stream's columns in an order."""
        *_, attribute = self.weight_path
        if any(name in attribute for name in (_OUT, _NORM, _FINAL_NORM)):
            return array[..., order]
        # Only output projections have a bias of the residual stream.
        return array[order] if attribute.endswith(".kernel") else array


def layer_mappings(
    config: kt.TransformerConfig, is_hugging_face: bool
) -> list[WeightMapping]:
    """Returns the WeightMappings of all arrays but embeddings and output bias.

    The arrays are named as in a MarianMTModel, or as in Marian's `model.npz`.
    """
    sides = {"encoder": config.num_layers, "decoder": config.decoder_layers}
    mappings = []
    for side, num_layers in sides.items():
        for layer, entry in itertools.product(range(num_layers), _LAYER_ARRAYS):
            if side == "decoder" or not entry[0].startswith(_CROSS):
                mappings += _make_mappings(
                    config, side, layer, entry, is_hugging_face
                )
        # Marian's format has no pre-norm.
        if config.norm == "pre":
            prefix = f"model.{side}.layer_norm"
            mappings += _norm_mappings(
                config,
                (f"{prefix}.weight", f"{prefix}.bias"),
                (side, None, _FINAL_NORM),
            )
    return mappings


def _make_mappings(config, side, layer, entry, is_hugging_face):
    """Returns the WeightMappings of a projection or a layer norm."""
    attribute, index, hf_name, marian_name = entry
    is_norm, width = attribute.endswith(_NORM), config.d_model
    if is_hugging_face:
        prefix = f"model.{side}.layers.{layer}.{hf_name}"
        names = f"{prefix}.weight", f"{prefix}.bias"
    else:
        prefix = f"{side}_l{layer + 1}_{marian_name}"
        names = prefix.format("W"), prefix.format("b")
        names = (f"{prefix}_scale", f"{prefix}_bias") if is_norm else names
    if is_norm:
        return _norm_mappings(config, names, (side, layer, attribute))
    paths = [
        (side, layer, f"{attribute}.{weight}") for weight in ("kernel", "bias")
    ]
    is_attention = not attribute.startswith("feed_forward")
    inner = config.num_heads * config.d_k if is_attention else config.d_ff
    shape = (inner, width) if attribute.endswith(_OUT) else (width, inner)
    columns = slice(index * inner, index * inner + shape[1])
    return [
        WeightMapping(names[0], paths[0], columns, shape, is_hugging_face),
        WeightMapping(names[1], paths[1], columns, shape[1:]),
    ]


def _norm_mappings(config, names, path):
    """Returns the WeightMappings of a layer norm."""
    side, layer, attribute = path
    width = config.d_model
    return [
        WeightMapping(
            name, (side, layer, f"{attribute}.{weight}"), slice(width), (width,)
        )
        for name, weight in zip(names, ("gamma", "beta"))
    ]


def marian_columns(width: int) -> np.ndarray:
    """Returns the columns for `ours = marians[..., columns]`, int [D]."""
    return np.arange(width).reshape(2, width // 2).T.ravel()


def load_transformer(
    config: kt.TransformerConfig,
    weights: "WeightsFile",
    mappings: Sequence[WeightMapping],
    other_names: set[str],
) -> kt.Transformer:
    """Returns a Transformer with the layers of a WeightsFile.

    `mappings` are the WeightMappings of all layers, `other_names` the names of
    the other arrays. Raises InputError if an array is missing or unexpected.
    """
    layer_names = {mapping.name for mapping in mappings}
    weights.validate_names(layer_names | other_names)
    # Before creating the model: a hostile file may declare any size.
    for mapping in mappings:
        weights.validate_shape(mapping.name, mapping.stored_shape)
    model = kt.Transformer(config)
    order = marian_columns(config.d_model)
    for mapping in mappings:
        array = weights.read(mapping.name, mapping.stored_shape)
        array = array.T if mapping.is_transposed else array
        weight = mapping.weight(model)
        value = np.array(ops.convert_to_numpy(weight))
        value[..., mapping.columns] = mapping.permute(array, order)
        weight.assign(value)
    return model


def layer_arrays(
    model: kt.Transformer, mappings: Sequence[WeightMapping]
) -> dict[str, np.ndarray]:
    """Returns the arrays of WeightMappings by name, float32."""
    order = np.argsort(marian_columns(model.config.d_model))
    arrays = {}
    for mapping in mappings:
        weight = ops.convert_to_numpy(mapping.weight(model))
        array = np.asarray(weight, np.float32)[..., mapping.columns]
        array = mapping.permute(array, order)
        array = array.T if mapping.is_transposed else array
        arrays[mapping.name] = np.ascontiguousarray(array)
    return arrays


def set_embeddings(
    model: kt.Transformer,
    embeddings: Mapping[str, np.ndarray],
    bias: np.ndarray,
    source: Vocabulary,
    target: Vocabulary,
) -> None:
    """Sets the embeddings and the output bias of a Transformer.

    `embeddings` are the checkpoint's matrices [V', D] by name: "source",
    "target" and "output", without tied ones, of any float dtype. `bias` is
    float32 [V'], `source` and `target` are Vocabularies.
    """
    columns = marian_columns(model.config.d_model)
    sides = {"source": source, "target": target, "output": target}
    for name, matrix in embeddings.items():
        ids = np.array(sides[name].checkpoint_ids)
        weight = getattr(model, f"{name}_embedding").embeddings
        for start in range(0, len(ids), _NUM_ROWS):
            row_ids = ids[start : start + _NUM_ROWS]
            rows = matrix[np.maximum(row_ids, 0)[:, None], columns]
            rows = np.asarray(rows, np.float32)
            rows[row_ids == MISSING_ID] = 0.0
            _assign_rows(weight, start, rows)
    if model.config.output_bias:
        ids = np.array(target.checkpoint_ids)
        biases = np.where(ids == MISSING_ID, EXCLUDED_BIAS, bias[ids])
        # Where the end also begins the outputs, it counts once.
        if ids[BEGIN_ID] == ids[END_ID]:
            biases[BEGIN_ID] = EXCLUDED_BIAS
        model.output_embedding.bias.assign(biases)


def _assign_rows(weight, start, rows):
    """Replaces rows of a weight from `start` on."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # In place: `weight.value[...].assign` copies the whole weight.
        tf.raw_ops.ResourceStridedSliceAssign(
            ref=weight.value.handle,
            begin=[start],
            end=[start + len(rows)],
            strides=[1],
            value=rows,
        )
        return
    indices = np.arange(start, start + len(rows))[:, None]
    weight.assign(ops.scatter_update(weight, indices, rows))


def make_transformer_config(
    file: str,
    names: Mapping[str, str],
    d_model: int,
    num_heads: int,
    encoder_layers: int,
    decoder_layers: int,
    norm: str = "post",
    **fields: typing.Any,
) -> kt.TransformerConfig:
    """Returns the TransformerConfig of a Marian network, or of M2M-100.

    Errors name `file`, with its `names` of the fields where they differ;
    `fields` are other fields of the configuration.
    """
    if d_model % num_heads:
        expected = f"a multiple of {names['num_heads']}, {num_heads},"
        name = names.get("d_model", "d_model")
        raise wrong_value_error(file, name, d_model, expected)
    is_equal = decoder_layers == encoder_layers
    try:
        return kt.TransformerConfig(
            num_layers=encoder_layers,
            num_decoder_layers=0 if is_equal else decoder_layers,
            d_model=d_model,
            num_heads=num_heads,
            d_k=d_model // num_heads,
            d_v=d_model // num_heads,
            norm=norm,
            **fields,
        )
    except ValueError as error:
        name, reason = str(error).split(" ", 1)
        name = names.get(name, name)
        raise InputError(f"{file}: {name} {reason}") from error
