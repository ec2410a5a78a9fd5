"""The arithmetic of `widened.py`: small weights to large ones, same function.

Units are written several times, and what sums over the copies is divided by
their number (Net2WiderNet, Chen et al. 2016, section 3.2). Layers are added
that change nothing (Net2DeeperNet, section 3.3 there), and pieces that no
translation can have.
"""

import math

import numpy as np
from keras import ops
from sentencepiece import sentencepiece_model_pb2

from export.errors import InputError

_SIZES = (
    "vocabulary_size",
    "num_layers",
    "num_decoder_layers",
    "d_model",
    "d_ff",
    "num_heads",
    "d_k",
    "d_v",
)
_UNITS = _SIZES[3:]
# The logit of an added piece: no share of the softmax beside a trained one's.
_NEVER = -50.0


def wide_config(narrow, sizes, max_positions, length_penalty):
    """Returns the large model's configuration.

    Positions become a learned table: the sinusoids of the narrow width,
    repeated, are not those of the wide one.

    Args:
        narrow: TransformerConfig of the small model.
        sizes: TransformerConfig whose sizes the large one has.
        max_positions: rows of the table.
        length_penalty: of the large one.

    Raises:
        InputError: no model of these sizes computes the same.
    """
    if narrow.norm != "post" or narrow.share_embeddings != "all":
        raise InputError(
            "Only a post-norm model whose embeddings are all shared can be "
            "widened (norm=post, share_embeddings=all)."
        )
    if narrow.positions == "learned" and narrow.max_positions < max_positions:
        raise InputError(
            f"The narrow model has {narrow.max_positions} positions; give "
            f"--max_positions={narrow.max_positions} at most."
        )
    smaller, larger = narrow.architecture(), sizes.architecture()
    for name in _SIZES:
        small, large = smaller[name], larger[name]
        if large < small or (name in _UNITS and large % small):
            rule = "a multiple of" if name in _UNITS else "at least"
            raise InputError(
                f"{name} must be {rule} the narrow model's {small}, not "
                f"{large}; change it with --set={name}=..."
            )
    return narrow.replace(
        **{name: getattr(sizes, name) for name in _SIZES},
        positions="learned",
        max_positions=max_positions,
        length_penalty=length_penalty,
    )


def pad_vocabulary(vocabulary, size):
    """Returns a SentencePiece model with unused pieces up to a size."""
    model = sentencepiece_model_pb2.ModelProto.FromString(vocabulary)
    for number in range(len(model.pieces), size):
        model.pieces.add(
            piece=f"<added_{number}>",
            score=0.0,
            type=sentencepiece_model_pb2.ModelProto.SentencePiece.UNUSED,
        )
    model.trainer_spec.vocab_size = size
    return model.SerializeToString()


def copy_weights(wide, narrow):
    """Sets a large model's weights so that it computes what a small one does.

    Args:
        wide: Transformer of `wide_config`.
        narrow: Transformer.

    Raises:
        InputError: the small model cannot have pieces added.
    """
    copies = wide.config.d_model // narrow.config.d_model
    units = _tile(narrow.config.d_model, wide.config.d_model)
    rows = np.arange(wide.config.max_positions, dtype="int32")
    for ours, theirs in (
        (wide.source_positions, narrow.source_positions),
        (wide.target_positions, narrow.target_positions),
    ):
        ours.embeddings.assign(_array(theirs.encode(rows))[:, units])
    for ours, theirs in (
        (wide.encoder.layers, narrow.encoder.layers),
        (wide.decoder.layers, narrow.decoder.layers),
    ):
        _fill_layers(ours, theirs)
    # Logits sum over the copies, and wide embeddings are multiplied by a
    # sqrt(d_model) that is sqrt(copies) more.
    norm = wide.decoder.layers[-1].feed_forward_residual.layer_norm
    for weight in (norm.gamma, norm.beta):
        weight.assign(_array(weight) / math.sqrt(copies))
    table = _array(narrow.target_embedding.embeddings)[:, units]
    table /= math.sqrt(copies)
    added = wide.config.vocabulary_size - narrow.config.vocabulary_size
    if added:
        row = _suppressed_embedding(_array(norm.gamma), _array(norm.beta))
        table = np.concatenate([table, np.tile(row, (added, 1))])
    wide.target_embedding.embeddings.assign(table)


def _suppressed_embedding(gamma, beta):
    """Returns an embedding whose logit is the same low number for all states.

    What LayerNorm gives, gamma * z + beta, has a z of mean zero, so its
    product with 1 / gamma is the sum of beta / gamma whatever z is.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        row = _NEVER / np.sum(beta / gamma) / gamma
    if not np.linalg.norm(row) < 1e4:
        raise InputError(
            "Pieces cannot be added to this model, whose last normalisation "
            "has no shift (was it trained?); give --set=vocabulary_size of "
            "its own."
        )
    return row


def _fill_layers(wide, narrow):
    for number, layer in enumerate(wide):
        source = narrow[number % len(narrow)]
        for name in ("self_attention", "cross_attention"):
            if hasattr(source, name):
                _fill_attention(getattr(layer, name), getattr(source, name))
                _fill_norm(layer, source, f"{name}_residual")
        ours, theirs = layer.feed_forward, source.feed_forward
        inner = _tile(theirs.d_ff, ours.d_ff)
        units = _tile(theirs.d_model, ours.d_model)
        _fill_linear(ours, theirs, "inner", units, inner)
        _fill_linear(ours, theirs, "output", inner, units)
        _fill_norm(layer, source, "feed_forward_residual")
    if len(wide) > len(narrow):
        _make_identity(wide[len(narrow) :])
        # Normalised twice is normalised once, before scale and shift.
        _reset_norm(wide[len(narrow) - 1].feed_forward_residual.layer_norm)
        _fill_norm(wide[-1], narrow[-1], "feed_forward_residual")


def _make_identity(layers):
    """Makes layers return what they get, if it is normalised."""
    for layer in layers:
        for name in ("self_attention", "cross_attention", "feed_forward"):
            if hasattr(layer, name):
                sublayer = getattr(layer, name)
                for weight in (sublayer.output_kernel, sublayer.output_bias):
                    if weight is not None:
                        weight.assign(np.zeros(weight.shape))
                _reset_norm(getattr(layer, f"{name}_residual").layer_norm)


def _reset_norm(norm):
    norm.gamma.assign(np.ones(norm.gamma.shape))
    norm.beta.assign(np.zeros(norm.beta.shape))


def _fill_attention(wide, narrow):
    units = _tile(narrow.d_model, wide.d_model)
    values = _tile_heads(narrow.num_heads, narrow.d_v, wide.num_heads, wide.d_v)
    keys = _tile_heads(narrow.num_heads, narrow.d_k, wide.num_heads, wide.d_k)
    # Scores sum over the copies and are divided by the root of their number.
    query_scale = np.full(len(keys), math.sqrt(narrow.d_k / wide.d_k))
    unscaled = np.ones(len(keys) + len(values))
    after_keys = narrow.num_heads * narrow.d_k + values
    keys_values = np.concatenate([keys, after_keys])
    after_queries = narrow.num_heads * narrow.d_k + keys_values
    for name, outputs, scales in (
        (
            "query_key_value",
            np.concatenate([keys, after_queries]),
            np.concatenate([query_scale, unscaled]),
        ),
        ("query", keys, query_scale),
        ("key_value", keys_values, unscaled),
    ):
        if hasattr(narrow, f"{name}_kernel"):
            _fill_linear(wide, narrow, name, units, outputs, scales)
    _fill_linear(wide, narrow, "output", values, units)


def _fill_linear(wide, narrow, name, inputs, outputs, scales=1.0):
    """Copies inputs and outputs; divides by the copies of an input."""
    kernel = _array(getattr(narrow, f"{name}_kernel"))
    copies = len(inputs) / kernel.shape[0]
    getattr(wide, f"{name}_kernel").assign(
        kernel[inputs][:, outputs] * scales / copies
    )
    bias = getattr(narrow, f"{name}_bias")
    if bias is not None:
        getattr(wide, f"{name}_bias").assign(_array(bias)[outputs] * scales)


def _fill_norm(wide, narrow, residual):
    ours = getattr(wide, residual).layer_norm
    theirs = getattr(narrow, residual).layer_norm
    index = _tile(theirs.gamma.shape[0], ours.gamma.shape[0])
    ours.gamma.assign(_array(theirs.gamma)[index])
    ours.beta.assign(_array(theirs.beta)[index])


def _tile(narrow, wide):
    """Which narrow unit each wide one is: 0 to n - 1 again and again."""
    return np.arange(wide) % narrow


def _tile_heads(heads, width, wide_heads, wide_width):
    """The same for heads side by side, copied themselves and inside."""
    head = _tile(heads, wide_heads)[:, None]
    return (head * width + _tile(width, wide_width)).reshape(-1)


def _array(tensor):
    return ops.convert_to_numpy(tensor)
