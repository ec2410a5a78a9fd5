"""Turns a narrow trained model into a wide one that says the same.

    python benchmarks/widened.py --model_dir=NARROW --output_dir=WIDE

A model of the base size takes days to train on a CPU, and how long decoding
takes hangs on how long a trained model's outputs are. So every unit of a
narrow model is written several times, and what sums over the copies is
divided by their number (Net2WiderNet, Chen et al. 2016, section 3.2): the
same function, at the cost of the wide one.
"""

import os
import pathlib
import sys

from absl import flags

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import math  # noqa: E402

import numpy as np  # noqa: E402
from keras import ops  # noqa: E402

import keras_transformer as kt  # noqa: E402
from export import command  # noqa: E402
from export.atomic import written_whole  # noqa: E402
from export.errors import InputError  # noqa: E402
from export.model_directory import ModelDirectory  # noqa: E402

FLAGS = flags.FLAGS

flags.DEFINE_string("model_dir", None, "The narrow model.", required=True)
flags.DEFINE_string(
    "output_dir", None, "Where the wide one goes.", required=True
)
flags.DEFINE_integer(
    "copies", 4, "How often each unit is written.", lower_bound=2
)
flags.DEFINE_integer(
    "max_positions", 512, "Rows of the wide model's positions.", lower_bound=1
)
flags.DEFINE_enum(
    "length_penalty",
    "power",
    ["power", "gnmt"],
    "Of the wide model; other programs know length ** alpha only.",
)


def main(_):
    """Runs the command."""
    directory = ModelDirectory(FLAGS.model_dir)
    narrow = directory.load_model()
    config = widened_config(
        narrow.config,
        FLAGS.copies,
        FLAGS.max_positions,
        length_penalty=FLAGS.length_penalty,
    )
    wide = kt.Transformer(config)
    fill(wide, narrow, FLAGS.copies)
    with written_whole(FLAGS.output_dir) as temporary:
        output = ModelDirectory(temporary)
        output.write_config(config)
        output.write_run(directory.read_run())
        output.write_vocabulary(directory.read_vocabulary())
        output.write_weights(wide)
    print(
        f"Wrote {FLAGS.output_dir}: {wide.count_params():,} weights that "
        f"compute what the {narrow.count_params():,} of {FLAGS.model_dir} do."
    )


def widened_config(config, copies, max_positions, **changes):
    """Returns the wide model's configuration.

    Heads keep their width and become more. Positions become a learned
    table: the sinusoids of the narrow width, repeated, are not those of the
    wide one.

    Args:
        config: TransformerConfig of the narrow model.
        copies: R.
        max_positions: rows of the table.
        **changes: other fields.

    Raises:
        InputError: what it asks for has no wide model that computes the
            same.
    """
    if config.norm != "post" or config.share_embeddings != "all":
        raise InputError(
            "Only a post-norm model whose embeddings are all shared can be "
            "widened (norm=post, share_embeddings=all)."
        )
    if config.positions == "learned" and config.max_positions < max_positions:
        raise InputError(
            f"The narrow model has {config.max_positions} positions; give "
            f"--max_positions={config.max_positions} at most."
        )
    return config.replace(
        d_model=copies * config.d_model,
        d_ff=copies * config.d_ff,
        num_heads=copies * config.num_heads,
        positions="learned",
        max_positions=max_positions,
        **changes,
    )


def fill(wide, narrow, copies):
    """Sets a wide model's weights to those of a narrow one, copied.

    Unit i of a block of n becomes the units i, n + i, 2 n + i and so on.
    Every copy gets the same inputs and so has the same value.

    Args:
        wide: Transformer of `widened_config`.
        narrow: Transformer.
        copies: R.
    """
    rows = np.arange(wide.config.max_positions, dtype="int32")
    for ours, theirs in (
        (wide.source_positions, narrow.source_positions),
        (wide.target_positions, narrow.target_positions),
    ):
        ours.embeddings.assign(_tiled(theirs.encode(rows), copies))
    # Wide embeddings are multiplied by a sqrt(d_model) that is sqrt(R) more.
    table = _tiled(narrow.target_embedding.embeddings, copies)
    wide.target_embedding.embeddings.assign(table / math.sqrt(copies))
    for ours, theirs in (
        (wide.encoder, narrow.encoder),
        (wide.decoder, narrow.decoder),
    ):
        for our_layer, their_layer in zip(ours.layers, theirs.layers):
            _fill_layer(our_layer, their_layer, copies)
    # Logits sum over R copies with embeddings that are sqrt(R) too small.
    norm = wide.decoder.layers[-1].feed_forward_residual.layer_norm
    for weight in (norm.gamma, norm.beta):
        weight.assign(ops.convert_to_numpy(weight) / math.sqrt(copies))


def _fill_layer(wide, narrow, copies):
    for attention in ("self_attention", "cross_attention"):
        if hasattr(narrow, attention):
            _fill_attention(
                getattr(wide, attention), getattr(narrow, attention), copies
            )
            _fill_norm(wide, narrow, f"{attention}_residual", copies)
    for name in ("inner", "output"):
        _fill_linear(wide.feed_forward, narrow.feed_forward, name, copies)
    _fill_norm(wide, narrow, "feed_forward_residual", copies)


def _fill_attention(wide, narrow, copies):
    queries = narrow.num_heads * narrow.d_k
    # Where a fused product's queries, keys and values part.
    edges = {
        "query_key_value": (queries, 2 * queries),
        "query": (),
        "key_value": (queries,),
        "output": (),
    }
    for name, places in edges.items():
        if hasattr(narrow, f"{name}_kernel"):
            _fill_linear(wide, narrow, name, copies, places)


def _fill_linear(wide, narrow, name, copies, edges=()):
    """Copies outputs block by block; divides what sums over copied inputs."""
    kernel = ops.convert_to_numpy(getattr(narrow, f"{name}_kernel"))
    parts = [
        np.tile(part, (copies, copies)) / copies
        for part in np.split(kernel, edges, axis=1)
    ]
    getattr(wide, f"{name}_kernel").assign(np.concatenate(parts, axis=1))
    bias = getattr(narrow, f"{name}_bias")
    if bias is not None:
        parts = np.split(ops.convert_to_numpy(bias), edges)
        getattr(wide, f"{name}_bias").assign(
            np.concatenate([np.tile(part, copies) for part in parts])
        )


def _fill_norm(wide, narrow, residual, copies):
    ours = getattr(wide, residual).layer_norm
    theirs = getattr(narrow, residual).layer_norm
    ours.gamma.assign(_tiled(theirs.gamma, copies))
    ours.beta.assign(_tiled(theirs.beta, copies))


def _tiled(tensor, copies):
    """Writes the last axis several times, side by side."""
    array = ops.convert_to_numpy(tensor)
    return np.tile(array, (1,) * (array.ndim - 1) + (copies,))


if __name__ == "__main__":
    command.run(main)
