"""The matrix products of decoding; those of training: trainers.cost."""

import types

from trainers.cost.flops import (
    decoder_matrices,
    encoder_matrices,
    memory_matrix,
    softmax_matrix,
)

_BYTES = {"float32": 4, "bfloat16": 2}


def encoder_shapes(config):
    """Returns the matrices that every source position is multiplied with.

    Args:
        config: fields of a TransformerConfig, a dict.

    Returns:
        List of (rows, columns): those of the encoder, then those of the
        decoder's keys and values of the encoder's output.
    """
    fields = types.SimpleNamespace(**config)
    return _shapes(
        config["num_layers"] * encoder_matrices(fields)
        + decoder_layers(config) * [memory_matrix(fields)]
    )


def step_shapes(config):
    """Returns the matrices that every target position is multiplied with.

    Args:
        config: fields of a TransformerConfig, a dict.

    Returns:
        List of (rows, columns): those of the decoder, then the pre-softmax
        matrix.
    """
    fields = types.SimpleNamespace(**config)
    of_decoder = decoder_layers(config) * decoder_matrices(fields)
    return _shapes([*of_decoder, softmax_matrix(fields)])


def decoder_layers(config):
    """Returns the decoder's number of layers, of fields as a dict."""
    return config["num_decoder_layers"] or config["num_layers"]


def _shapes(matrices):
    return [(each.rows, each.columns) for each in matrices]


def step_bytes(config, precision):
    """Returns how many bytes of weights a decoder step reads."""
    weights = sum(rows * columns for rows, columns in step_shapes(config))
    return _BYTES[precision] * weights


def live_rows(target_lengths, beam_size):
    """Returns how many rows a decoder step has, and for how many steps.

    A sentence that is finished has none.

    Args:
        target_lengths: list of int, of a batch's translations.
        beam_size: K.

    Returns:
        List of (rows, steps), in order.
    """
    runs, done = [], 0
    for number, length in enumerate(sorted(target_lengths)):
        if length > done:
            rows = beam_size * (len(target_lengths) - number)
            runs.append((rows, length - done))
            done = length
    return runs
