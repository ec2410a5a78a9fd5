"""Our weights under the names of MarianMTModel."""

import numpy as np
from keras import ops

from export.errors import InputError

# Name in MarianMTModel: kernel and the number of the block in it.
_SELF = {
    "q_proj": ("query_key_value", 0),
    "k_proj": ("query_key_value", 1),
    "v_proj": ("query_key_value", 2),
    "out_proj": ("output", 0),
}
_CROSS = {
    "q_proj": ("query", 0),
    "k_proj": ("key_value", 0),
    "v_proj": ("key_value", 1),
    "out_proj": ("output", 0),
}
_FEED_FORWARD = {"fc1": "inner", "fc2": "output"}


def marian_state_dict(model):
    """Returns all weights of a MarianMTModel.

    Args:
        model: Transformer.

    Returns:
        Dict of name in its `state_dict` to float32 array.

    Raises:
        InputError: MarianMTModel is of another architecture.
    """
    config = model.config
    if not (
        config.norm == "post"
        and config.share_embeddings == "all"
        and config.d_k == config.d_v == config.d_model // config.num_heads
        and config.attention_bias
        and config.activation == "relu"
        and not config.attention_window
    ):
        raise InputError(
            "MarianMTModel has no such architecture: it is post-norm with "
            "shared embeddings, biases, ReLU and heads that fill d_model; "
            "leave transformers out of --systems."
        )
    embeddings = _array(model.target_embedding.embeddings)
    arrays = {
        "model.shared.weight": embeddings,
        "lm_head.weight": embeddings,
        "final_logits_bias": np.zeros((1, len(embeddings)), np.float32),
    }
    sides = {
        "encoder": (model.encoder, model.source_positions),
        "decoder": (model.decoder, model.target_positions),
    }
    rows = np.arange(config.max_positions, dtype="int32")
    for side, (stack, positions) in sides.items():
        arrays[f"model.{side}.embed_tokens.weight"] = embeddings
        arrays[f"model.{side}.embed_positions.weight"] = _array(
            positions.encode(rows)
        )
        for number, layer in enumerate(stack.layers):
            arrays |= _layer(f"model.{side}.layers.{number}", layer)
    return arrays


def _layer(name, layer):
    arrays = {}
    parts = {
        "self_attn": ("self_attention", _SELF, "self_attn_layer_norm"),
        "encoder_attn": ("cross_attention", _CROSS, "encoder_attn_layer_norm"),
    }
    for theirs, (ours, blocks, norm) in parts.items():
        if hasattr(layer, ours):
            attention = getattr(layer, ours)
            arrays |= _attention(f"{name}.{theirs}", attention, blocks)
            arrays |= _norm(
                f"{name}.{norm}", getattr(layer, f"{ours}_residual")
            )
    for theirs, ours in _FEED_FORWARD.items():
        arrays[f"{name}.{theirs}.weight"] = _array(
            getattr(layer.feed_forward, f"{ours}_kernel")
        ).T
        arrays[f"{name}.{theirs}.bias"] = _array(
            getattr(layer.feed_forward, f"{ours}_bias")
        )
    arrays |= _norm(f"{name}.final_layer_norm", layer.feed_forward_residual)
    return arrays


def _attention(name, attention, blocks):
    arrays, width = {}, attention.num_heads * attention.d_k
    for theirs, (ours, block) in blocks.items():
        columns = slice(block * width, (block + 1) * width)
        kernel = _array(getattr(attention, f"{ours}_kernel"))
        bias = _array(getattr(attention, f"{ours}_bias"))
        arrays[f"{name}.{theirs}.weight"] = kernel[:, columns].T
        arrays[f"{name}.{theirs}.bias"] = bias[columns]
    return arrays


def _norm(name, residual):
    return {
        f"{name}.weight": _array(residual.layer_norm.gamma),
        f"{name}.bias": _array(residual.layer_norm.beta),
    }


def _array(tensor):
    return np.asarray(ops.convert_to_numpy(tensor), np.float32)
