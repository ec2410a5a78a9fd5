"""Attention of made-up sentences, without a model."""

import numpy as np

from export.attention_views.reader import AttentionMaps


def pieces(text):
    """Cuts words to pieces of at most four characters."""
    cut = []
    for word in text.split():
        marked = f"\u2581{word}"
        cut += [marked[i : i + 5] for i in range(0, len(marked), 5)]
    return (*cut, "</s>")


def maps(text, translation, layers=3, heads=4, seed=0, decoder_layers=None):
    """Every row of weights is a draw of its own, and sums to 1."""
    decoder_layers = decoder_layers or layers
    source, target = pieces(text), pieces(translation)
    generator = np.random.default_rng(seed)

    def drawn(layers, rows, columns, seen):
        weights = generator.gamma(0.2, size=(layers, heads, rows, columns))
        weights = (weights + 1e-6) * seen
        weights /= weights.sum(axis=-1, keepdims=True)
        return weights.astype(np.float32)

    ones = np.ones
    s, t = len(source), len(target)
    return AttentionMaps(
        text=text,
        translation=translation,
        source_tokens=source,
        target_tokens=target,
        target_inputs=("<s>", *target[:-1]),
        encoder=drawn(layers, s, s, ones((s, s))),
        decoder=drawn(decoder_layers, t, t, np.tril(ones((t, t)))),
        cross=drawn(decoder_layers, t, s, ones((t, s))),
        source_words=numbers(source),
        target_words=numbers(target),
    )


def numbers(tokens):
    """The word of each token twice, as the first and the last one."""
    begins = [token.startswith("\u2581") for token in tokens]
    found = np.where(np.array(tokens) == "</s>", -1, np.cumsum(begins) - 1)
    return np.stack([found, found], axis=1)


def words(tokens):
    """Returns the words of tokens, each a list of the numbers of its pieces."""
    groups = []
    for number, token in enumerate(tokens):
        if token[0] == "\u2581" or token in ("<s>", "</s>"):
            groups.append([])
        groups[-1].append(number)
    return groups


def merged(weights, rows, columns):
    """Sums keys and averages queries, one number at a time."""
    found = np.zeros((*weights.shape[:2], len(rows), len(columns)))
    for row, queries in enumerate(rows):
        for column, keys in enumerate(columns):
            for query in queries:
                for key in keys:
                    found[..., row, column] += weights[..., query, key].astype(
                        np.float64
                    ) / len(queries)
    return found
