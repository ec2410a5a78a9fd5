"""Enlarges a small trained model without changing its translations.

    python benchmarks/widened.py --model_dir=NARROW --output_dir=WIDE

Training a base model takes days on a CPU, but decoding benchmarks need the
output lengths of a trained model. Units are repeated, and sums over the copies
are divided by their number (Net2WiderNet, Chen et al. 2016, section 3.2). Added
layers change nothing (Net2DeeperNet, section 3.3), and added pieces are never
chosen.
"""

import math
import os
import pathlib
import sys

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from keras import ops

import keras_transformer as kt
from export.common import command
from export.common.errors import InputError
from export.common.storage import atomic_write
from export.model_directory import ModelDirectory
from export.tokenizers import sentencepiece_model
from trainers.training.config_flags import make_config

FLAGS = flags.FLAGS

flags.DEFINE_string("model_dir", None, "The small model.", required=True)
flags.DEFINE_string(
    "output_dir", None, "Directory for the large model.", required=True
)
flags.DEFINE_string("preset", "base", "Its sizes.")
flags.DEFINE_multi_string(
    "set", [], "Another size, such as --set=vocabulary_size=32000."
)
flags.DEFINE_integer(
    "max_positions", 512, "Rows of its learned positions.", lower_bound=1
)

# Sizes that must be multiples of the small model's, and at least as large.
_UNITS = ("d_model", "d_ff", "num_heads", "d_k", "d_v")
_SIZES = ("vocabulary_size", "num_layers", "num_decoder_layers", *_UNITS)
_array = ops.convert_to_numpy
# Logit of added pieces, negligible in the softmax.
_SUPPRESSED = -50.0


def main(_):
    directory = ModelDirectory(FLAGS.model_dir)
    narrow = directory.load_model()
    config = _wide_config(narrow.config, make_config(FLAGS.preset, FLAGS.set))
    wide = kt.Transformer(config)
    _copy_weights(wide, narrow)
    vocabulary = _pad_vocabulary(
        directory.read_vocabulary(), config.vocabulary_size
    )
    with atomic_write(FLAGS.output_dir) as temporary:
        output = ModelDirectory(temporary)
        output.write_config(config)
        output.write_run(directory.read_run())
        output.write_vocabulary(vocabulary)
        output.write_weights(wide)
    print(
        f"Wrote {FLAGS.output_dir}: {wide.count_params():,} weights that "
        f"compute what the {narrow.count_params():,} of {FLAGS.model_dir} do."
    )


def _wide_config(narrow, sizes):
    """Returns the large model's TransformerConfig."""
    if narrow.share_embeddings != "all":
        raise InputError(
            "Only a model with shared embeddings (share_embeddings=all) can be "
            "widened."
        )
    positions = FLAGS.max_positions
    if narrow.positions == "learned" and narrow.max_positions < positions:
        raise InputError(f"Set --max_positions={narrow.max_positions} at most.")
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
        # Repeated sinusoids are not those of the wide model.
        positions="learned",
        max_positions=positions,
        # Other programs support only length ** alpha.
        length_penalty="power",
    )


def _pad_vocabulary(vocabulary, size):
    """Adds unused pieces to a SentencePiece model, up to a size."""
    model = sentencepiece_model.ModelProto.FromString(vocabulary)
    for number in range(len(model.pieces), size):
        model.pieces.add(
            piece=f"<added_{number}>",
            score=0.0,
            type=sentencepiece_model.ModelProto.SentencePiece.UNUSED,
        )
    model.trainer_spec.vocab_size = size
    return model.SerializeToString()


def _copy_weights(wide, narrow):
    """Sets a large model's weights to compute the same as a small one."""
    copies = wide.config.d_model // narrow.config.d_model
    units = _tile(narrow.config.d_model, wide.config.d_model)
    rows = np.arange(wide.config.max_positions, dtype="int32")
    for side in ("source_positions", "target_positions"):
        table = _array(getattr(narrow, side).encode(rows))
        getattr(wide, side).embeddings.assign(table[:, units])
    _fill_stack(wide.encoder, narrow.encoder)
    _fill_stack(wide.decoder, narrow.decoder)
    # Logits sum over the copies, and the factor sqrt(d_model) of embeddings is
    # sqrt(copies) times as large.
    norm = _last_norm(wide.decoder)
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
    """Returns an embedding with the same low logit for all states."""
    # LayerNorm returns gamma * z + beta with a z of mean zero, so its product
    # with 1 / gamma is the sum of beta / gamma for any z.
    with np.errstate(divide="ignore", invalid="ignore"):
        row = _SUPPRESSED / np.sum(beta / gamma) / gamma
    if not np.linalg.norm(row) < 1e4:
        raise InputError(
            "Pieces cannot be added to this model, whose last normalisation "
            "has no shift (was it trained?); keep its vocabulary_size by --set."
        )
    return row


def _last_norm(stack):
    return stack.final_norm or stack.layers[-1].feed_forward_residual.layer_norm


def _fill_stack(wide_stack, narrow_stack):
    wide, narrow = wide_stack.layers, narrow_stack.layers
    for number, layer in enumerate(wide):
        source = narrow[number % len(narrow)]
        for name in ("self_attention", "cross_attention"):
            if hasattr(source, name):
                _fill_attention(getattr(layer, name), getattr(source, name))
                name += "_residual"
                _fill_norm(
                    getattr(layer, name).layer_norm,
                    getattr(source, name).layer_norm,
                )
        ours, theirs = layer.feed_forward, source.feed_forward
        inner = _tile(theirs.intermediate_dim, ours.intermediate_dim)
        units = _tile(
            theirs.output_projection.units, ours.output_projection.units
        )
        _fill_linear(
            ours.inner_projection, theirs.inner_projection, units, inner
        )
        _fill_linear(
            ours.output_projection, theirs.output_projection, inner, units
        )
        _fill_norm(
            layer.feed_forward_residual.layer_norm,
            source.feed_forward_residual.layer_norm,
        )
    # Added sublayers return zero. With post-norm, added layers normalize again:
    # scale and shift belong in the last layer.
    ends = [(wide[len(narrow) - 1], "feed_forward")]
    for layer in wide[len(narrow) :]:
        for name in ("self_attention", "cross_attention", "feed_forward"):
            if hasattr(layer, name):
                sublayer = getattr(layer, name)
                for weight in sublayer.output_projection.weights:
                    weight.assign(np.zeros(weight.shape))
                ends.append((layer, name))
    for layer, name in ends:
        norm = getattr(layer, f"{name}_residual").layer_norm
        if wide_stack.final_norm is None:
            norm.gamma.assign(np.ones(norm.gamma.shape))
            norm.beta.assign(np.zeros(norm.beta.shape))
    _fill_norm(_last_norm(wide_stack), _last_norm(narrow_stack))


def _fill_attention(wide, narrow):
    units = _tile(narrow.output_projection.units, wide.output_projection.units)
    heads = narrow.num_heads, wide.num_heads
    values = _tile_heads(heads[0], narrow.value_dim, heads[1], wide.value_dim)
    keys = _tile_heads(heads[0], narrow.key_dim, heads[1], wide.key_dim)
    # Scores sum over the copies and are divided by the root of their number.
    query_scale = np.full(len(keys), math.sqrt(narrow.key_dim / wide.key_dim))
    unscaled = np.ones(len(keys) + len(values))
    width = narrow.num_heads * narrow.key_dim
    keys_values = np.concatenate([keys, width + values])
    for name, outputs, scales in (
        (
            "query_key_value",
            np.concatenate([keys, width + keys_values]),
            np.concatenate([query_scale, unscaled]),
        ),
        ("query", keys, query_scale),
        ("key_value", keys_values, unscaled),
    ):
        if hasattr(narrow, name):
            pair = getattr(wide, name), getattr(narrow, name)
            _fill_linear(*pair, units, outputs, scales)
    _fill_linear(
        wide.output_projection, narrow.output_projection, values, units
    )


def _fill_linear(wide, narrow, inputs, outputs, scales=1.0):
    """Copies inputs and outputs; divides by the copies of an input."""
    kernel = _array(narrow.kernel)
    copies = len(inputs) / kernel.shape[0]
    wide.kernel.assign(kernel[inputs][:, outputs] * scales / copies)
    if narrow.bias is not None:
        wide.bias.assign(_array(narrow.bias)[outputs] * scales)


def _fill_norm(wide, narrow):
    index = _tile(narrow.gamma.shape[0], wide.gamma.shape[0])
    wide.gamma.assign(_array(narrow.gamma)[index])
    wide.beta.assign(_array(narrow.beta)[index])


def _tile(narrow, wide):
    """Returns the narrow index of each wide unit: 0 to n - 1, repeated."""
    return np.arange(wide) % narrow


def _tile_heads(heads, width, wide_heads, wide_width):
    """Like `_tile`, for repeated heads of repeated units."""
    head = _tile(heads, wide_heads)[:, None]
    return (head * width + _tile(width, wide_width)).reshape(-1)


if __name__ == "__main__":
    command.run(main)
