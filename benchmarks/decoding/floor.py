"""The matrix products that no decoder can do without."""

_BYTES = {"float32": 4, "bfloat16": 2}


def encoder_shapes(config):
    """Returns the matrices that every source position is multiplied with.

    Args:
        config: fields of a TransformerConfig, a dict.

    Returns:
        List of (rows, columns): those of the encoder, then those of the
        decoder's keys and values of the encoder's output.
    """
    d, layers = config["d_model"], config["num_layers"]
    queries, values = _widths(config)
    layer = [
        (d, 2 * queries + values),
        (values, d),
        (d, config["d_ff"]),
        (config["d_ff"], d),
    ]
    return layers * layer + layers * [(d, queries + values)]


def step_shapes(config):
    """Returns the matrices that each new token is multiplied with.

    Args:
        config: fields of a TransformerConfig, a dict.

    Returns:
        List of (rows, columns): those of the decoder, then the pre-softmax
        matrix.
    """
    d, layers = config["d_model"], config["num_layers"]
    queries, values = _widths(config)
    layer = [
        (d, 2 * queries + values),
        (values, d),
        (d, queries),
        (values, d),
        (d, config["d_ff"]),
        (config["d_ff"], d),
    ]
    return layers * layer + [(d, config["vocabulary_size"])]


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


def _widths(config):
    heads = config["num_heads"]
    return heads * config["d_k"], heads * config["d_v"]
