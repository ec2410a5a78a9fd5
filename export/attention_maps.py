"""What the heads of a model attend to in one sentence pair."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class AttentionMaps:
    """Attention weights of one translation; no padding anywhere.

    Letters: L layers, H heads, S source tokens, T target tokens. Every row
    sums to 1. Row t of `decoder` and `cross` is of the step that gives
    `target_tokens[t]`; that step sees `target_inputs[: t + 1]`, so the
    columns of `decoder` are those and not `target_tokens`.

    Attributes:
        text: the source.
        translation: as text.
        source_tokens: [S] str, such as "\u2581the", the last one "</s>". A
            piece that the vocabulary lacks stands as it is in the text.
        target_tokens: [T] str, the same of the translation.
        target_inputs: [T] str: "<s>", then `target_tokens` but the last.
        encoder: float32 [L, H, S, S], rows attending to columns.
        decoder: float32 [L, H, T, T].
        cross: float32 [L, H, T, S].
        source_is_cut: whether the text was longer than the model takes, so
            that only its beginning is here.
        target_is_cut: the same of a translation that was given.
    """

    text: str
    translation: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    target_inputs: tuple[str, ...]
    encoder: np.ndarray
    decoder: np.ndarray
    cross: np.ndarray
    source_is_cut: bool = False
    target_is_cut: bool = False
