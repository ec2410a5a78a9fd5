"""The paper's formulas in NumPy float64: what the tests compare with.

Nothing of `keras_transformer` is used here. Weights are a dict of arrays under
the names of the Keras model; sentences are handled one at a time.
"""

import math
import typing

import numpy as np

Weights = dict[str, np.ndarray]


class Outputs(typing.NamedTuple):
    """One sentence pair's results; attention is [H, queries, keys]."""

    logits: np.ndarray
    encoder: list[np.ndarray]
    decoder: list[np.ndarray]
    cross: list[np.ndarray]


def below(weights: Weights, name: str) -> Weights:
    """The weights of a part, under their names within it."""
    prefix = name + "/"
    return {
        key.removeprefix(prefix): value
        for key, value in weights.items()
        if key.startswith(prefix)
    }


def attention(queries, keys, values, allowed):
    """Formula 1 for one head; a query with no allowed key gets zeros."""
    weights = np.zeros(allowed.shape)
    for row, query in enumerate(queries):
        seen = np.flatnonzero(allowed[row])
        if not len(seen):
            continue
        scores = keys[seen] @ query / math.sqrt(len(query))
        exponentials = np.exp(scores - scores.max())
        weights[row, seen] = exponentials / exponentials.sum()
    return weights @ values, weights


def _projection(weights: Weights, name: str, start: int, width: int):
    kernel = weights[f"{name}/kernel"][:, start : start + width]
    bias = weights.get(f"{name}/bias", np.zeros(start + width))
    return kernel, bias[start : start + width]


def _head_projections(weights: Weights, head: int, heads, d_k, d_v):
    """W_i^Q, W_i^K, W_i^V and biases, cut out of the fused matrices."""
    if "query_key_value/kernel" in weights:
        query, key_value, skipped = "query_key_value", "query_key_value", heads
    else:
        query, key_value, skipped = "query", "key_value", 0
    key_start = skipped * d_k + head * d_k
    value_start = (skipped + heads) * d_k + head * d_v
    return (
        _projection(weights, query, head * d_k, d_k),
        _projection(weights, key_value, key_start, d_k),
        _projection(weights, key_value, value_start, d_v),
    )


def multi_head(weights, query, memory, sizes, allowed, kept=1.0):
    """Section 3.2.2; `sizes` are H, d_k, d_v, `kept` replaces dropout."""
    heads, d_k, d_v = sizes
    w_outputs = weights["output_projection/kernel"]
    output = np.zeros((len(query), w_outputs.shape[1]))
    all_weights = []
    for head in range(heads):
        (w_q, b_q), (w_k, b_k), (w_v, b_v) = _head_projections(
            weights, head, heads, d_k, d_v
        )
        attended, head_weights = attention(
            query @ w_q + b_q, memory @ w_k + b_k, memory @ w_v + b_v, allowed
        )
        w_o = w_outputs[head * d_v : (head + 1) * d_v]
        output += kept * attended @ w_o
        all_weights.append(head_weights)
    output = output + weights.get("output_projection/bias", 0.0)
    return output, np.stack(all_weights)


def activate(name: str, x):
    """Section 3.3's max(0, x), or one of its later replacements."""
    if name == "relu":
        return np.maximum(x, 0.0)
    if name == "gelu":
        normal = 0.5 * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))
        return x * normal
    return x / (1.0 + np.exp(-x))


def feed_forward(weights, x, activation="relu", kept=1.0):
    """Formula 2."""
    (w_1, b_1), (w_2, b_2) = (
        (weights[f"{name}/kernel"], weights[f"{name}/bias"])
        for name in ("inner_projection", "output_projection")
    )
    return kept * activate(activation, x @ w_1 + b_1) @ w_2 + b_2


def layer_norm(weights, x, epsilon):
    """Zero mean and unit variance over the features, then gamma and beta."""
    rows = []
    for row in x:
        centered = row - row.mean()
        deviation = math.sqrt((centered**2).mean() + epsilon)
        rows.append(centered / deviation * weights["gamma"] + weights["beta"])
    return np.stack(rows)


def residual(config, weights, x, sublayer, kept):
    """Section 3.1 and 5.4; `sublayer` returns its output and an extra."""
    norm = below(weights, "layer_norm")
    epsilon = config.layer_norm_epsilon
    if config.norm == "post":
        output, extra = sublayer(x)
        return layer_norm(norm, x + kept * output, epsilon), extra
    output, extra = sublayer(layer_norm(norm, x, epsilon))
    return x + kept * output, extra


def _attend(config, weights, x, name, memory, allowed, training):
    sizes = config.num_heads, config.d_k, config.d_v
    kept = 1.0 - config.attention_dropout if training else 1.0
    part = below(weights, name)
    return residual(
        config,
        below(weights, f"{name}_residual"),
        x,
        lambda y: multi_head(
            part, y, y if memory is None else memory, sizes, allowed, kept
        ),
        1.0 - config.dropout if training else 1.0,
    )


def _feed(config, weights, x, training):
    kept = 1.0 - config.activation_dropout if training else 1.0
    part = below(weights, "feed_forward")
    output, _ = residual(
        config,
        below(weights, "feed_forward_residual"),
        x,
        lambda y: (feed_forward(part, y, config.activation, kept), None),
        1.0 - config.dropout if training else 1.0,
    )
    return output


def encoder_layer(config, weights, x, allowed, training=False):
    """Returns [S, D] and the attention weights."""
    x, seen = _attend(
        config, weights, x, "self_attention", None, allowed, training
    )
    return _feed(config, weights, x, training), seen


def decoder_layer(
    config, weights, x, memory, allowed, memory_allowed, training=False
):
    """Returns [T, D], the self-attention and the cross-attention weights."""
    x, seen = _attend(
        config, weights, x, "self_attention", None, allowed, training
    )
    x, crossed = _attend(
        config, weights, x, "cross_attention", memory, memory_allowed, training
    )
    return _feed(config, weights, x, training), seen, crossed


def _stack(layer, num_layers, config, weights, x, *rest):
    """Applies the layers; returns the outputs and lists of attention."""
    attention_of_layers = []
    for number in range(1, num_layers + 1):
        part = below(weights, f"layer_{number}")
        x, *seen = layer(config, part, x, *rest)
        attention_of_layers.append(seen)
    if config.norm == "pre":
        final = below(weights, "final_norm")
        x = layer_norm(final, x, config.layer_norm_epsilon)
    return x, *map(list, zip(*attention_of_layers))


def encoder(config, *args):
    """N layers; the arguments are those of `encoder_layer`."""
    return _stack(encoder_layer, config.num_layers, config, *args)


def decoder(config, *args):
    """N layers; the arguments are those of `decoder_layer`."""
    layers = config.num_decoder_layers or config.num_layers
    return _stack(decoder_layer, layers, config, *args)


def sinusoid(position: int, d_model: int, rates: str = "paper"):
    """Section 3.5, one position; or with Marian's rates."""
    encoding = np.zeros(d_model)
    for i in range(d_model // 2):
        exponent = 2 * i / d_model
        if rates == "marian":
            exponent = i / (d_model / 2 - 1)
        angle = position / 10000.0**exponent
        encoding[2 * i] = math.sin(angle)
        encoding[2 * i + 1] = math.cos(angle)
    return encoding


def may_attend(keys, query_segments, key_segments, window=0, causal=False):
    """Boolean [Q, M]: no padding, own segment, window, nothing later."""
    allowed = np.zeros((len(query_segments), len(keys)), bool)
    for i, query_segment in enumerate(query_segments):
        for j, key in enumerate(keys):
            allowed[i, j] = (
                key != 0
                and query_segment == key_segments[j]
                and (not window or abs(i - j) <= window)
                and (not causal or j <= i)
            )
    return allowed


def smoothed_loss(logits, label: int, smoothing: float) -> float:
    """Section 5.4: cross-entropy against an explicit distribution."""
    size = len(logits)
    wanted = np.full(size, smoothing / (size - 1))
    wanted[label] = 1.0 - smoothing
    shifted = logits - logits.max()
    log_probabilities = shifted - math.log(np.exp(shifted).sum())
    return -float(wanted @ log_probabilities)


def mean_loss(logits, labels, smoothing: float) -> float:
    """Sum over target tokens that are not padding, divided by their number."""
    losses = [
        smoothed_loss(logits[b, t], labels[b, t], smoothing)
        for b, t in np.ndindex(*labels.shape)
        if labels[b, t] != 0
    ]
    return sum(losses) / len(losses)


def learning_rate(step, d_model, warmup, scale=1.0) -> float:
    """Formula 3."""
    return scale * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def length_penalty(length: int, alpha: float, kind: str) -> float:
    """Section 6.1 through Wu et al. 2016, or the plain power."""
    return ((5.0 + length) / 6.0) ** alpha if kind == "gnmt" else length**alpha
