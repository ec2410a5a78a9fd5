"""Attention weights of a translation."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class AttentionMaps:
    """Attention weights of one translation, without padding.

    Letters: L layers of the encoder or the decoder, H heads, S source tokens, T
    target tokens. Rows are queries, columns keys; every row sums to 1, that of
    the target's tag in `encoder`, which does not get it, to 0. Row t of
    `decoder` and `cross` belongs to the step that predicts `target_tokens[t]`
    from `target_inputs[: t + 1]`, which are the columns of `decoder`.

    Attributes:
        source_tokens: [S] str, such as "\u2581the"; the last one is "</s>".
        target_tokens: [T] str, the tokens of the translation.
        target_inputs: [T] str: "<s>", then all `target_tokens` but the last.
        encoder: float32 [L, H, S, S].
        decoder: float32 [L, H, T, T].
        cross: float32 [L, H, T, S].
        source_words: int32 [S, 2]: the first and the last word of `text` that
            each token belongs to, -1 for the end token.
        target_words: int32 [T, 2], the same for `translation`.
        source_truncated, target_truncated: whether the text or a given
            translation exceeded the model's maximum length.
    """

    text: str
    translation: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    target_inputs: tuple[str, ...]
    encoder: np.ndarray
    decoder: np.ndarray
    cross: np.ndarray
    source_words: np.ndarray
    target_words: np.ndarray
    source_truncated: bool = False
    target_truncated: bool = False


def make_attention_maps(text, translation, pair, source, target, weights):
    """Returns AttentionMaps without padding.

    `pair` is a SentencePair, `source` and `target` are tokens and words of a
    side, and `weights` a dict of padded float32 [L, H, Q, K].
    """
    source_tokens, source_words = source
    target_tokens, target_words = target
    s, t = len(source_tokens), len(target_tokens)
    return AttentionMaps(
        text=text,
        translation=translation,
        source_tokens=source_tokens,
        target_tokens=target_tokens,
        target_inputs=("<s>", *target_tokens[:-1]),
        encoder=weights["encoder"][:, :, :s, :s],
        decoder=weights["decoder"][:, :, :t, :t],
        cross=weights["cross"][:, :, :t, :s],
        source_words=source_words,
        target_words=target_words,
        source_truncated=pair.source.truncated,
        target_truncated=pair.target.truncated,
    )
