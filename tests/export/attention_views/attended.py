"""Attention of made-up sentences, and its reference between words."""

import numpy as np

from export.attention_views.word_attention import AttentionMaps


def pieces(text):
    """Splits words into pieces of at most four characters."""
    found = []
    for word in text.split():
        marked = f"\u2581{word}"
        found += [marked[i : i + 5] for i in range(0, len(marked), 5)]
    return (*found, "</s>")


def maps(
    text,
    translation,
    layers=3,
    heads=4,
    decoder_layers=None,
    source=None,
    target=None,
    inputs=None,
):
    """Random weights, rows of which sum to 1, over pieces of the texts."""
    decoder_layers = decoder_layers or layers
    source, target = source or pieces(text), target or pieces(translation)
    inputs = inputs or ("<s>", *target[:-1])
    generator = np.random.default_rng(0)

    def weights(layers, rows, columns, causal=False):
        shape = (layers, heads, len(rows), len(columns))
        drawn = generator.gamma(0.2, size=shape) + 1e-6
        drawn = np.tril(drawn) if causal else drawn
        drawn /= drawn.sum(axis=-1, keepdims=True)
        return drawn.astype(np.float32)

    return AttentionMaps(
        text=text,
        translation=translation,
        source_tokens=source,
        target_tokens=target,
        target_inputs=inputs,
        encoder=weights(layers, source, source),
        decoder=weights(decoder_layers, target, inputs, causal=True),
        cross=weights(decoder_layers, target, source),
        source_words=word_numbers(source),
        target_words=word_numbers(target),
    )


def word_numbers(tokens):
    """The word of each token twice, as the first and the last one."""
    begins = [token.startswith("\u2581") for token in tokens]
    found = np.where(np.array(tokens) == "</s>", -1, np.cumsum(begins) - 1)
    return np.stack([found, found], axis=1)


def by_words(maps, kind):
    """Sums keys and averages queries, word by word."""
    tokens = {
        "encoder": (maps.source_tokens, maps.source_tokens),
        "decoder": (maps.target_tokens, maps.target_inputs),
        "cross": (maps.target_tokens, maps.source_tokens),
    }[kind]
    rows, columns = map(_words, tokens)
    weights = getattr(maps, kind).astype(np.float64)
    found = np.zeros((*weights.shape[:2], len(rows), len(columns)))
    for row, queries in enumerate(rows):
        for column, keys in enumerate(columns):
            part = weights[..., queries, :][..., keys]
            found[..., row, column] = part.sum(axis=-1).mean(axis=-1)
    return found


def _words(tokens):
    """Returns the words of tokens, each a list of the numbers of its pieces."""
    groups = []
    for number, token in enumerate(tokens):
        if token[0] == "\u2581" or token in ("<s>", "</s>"):
            groups.append([])
        groups[-1].append(number)
    return groups
