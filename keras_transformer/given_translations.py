"""What a model makes of translations that are given to it."""

from keras import ops

from keras_transformer.alignment import alignment_of
from keras_transformer.ensemble import Ensemble
from keras_transformer.loss import LabelSmoothedCrossEntropy
from keras_transformer.special_ids import BEGIN_ID
from keras_transformer.transformer import padding_mask


def score_ids(model, source, target):
    """Returns the log-probability of each given translation.

    Args:
        model: Transformer or Ensemble.
        source: int32 [B, S], each ending with the end id, then padding.
        target: int32 [B, T], the same.

    Returns:
        float32 [B]: the sum over the target's tokens, the end id counted.
    """
    logits = model({"source": source, "target": _shifted(target)})
    losses = LabelSmoothedCrossEntropy(0.0).token_losses(target, logits)
    return -ops.sum(losses.plain, axis=1)


def align_ids(model, source, target, layer=None):
    """Returns how much each target token attends to each source token.

    Args:
        model: Transformer or Ensemble, of which the mean is taken.
        source: int32 [B, S], each ending with the end id, then padding.
        target: int32 [B, T], the same.
        layer: of `alignment_of`.

    Returns:
        float32 [B, T, S], mean over the heads: row t is of the step that
        gives `target[:, t]`, sums to 1 and is 0 on padding.

    Raises:
        ValueError: there is no such layer.
    """
    return alignment_of(model, _cross_attention(model, source, target), layer)


def _cross_attention(model, source, target):
    """Returns what `alignment_of` takes."""
    if isinstance(model, Ensemble):
        return [_cross_attention(one, source, target) for one in model.models]
    shifted = _shifted(target)
    *_, weights = model.decoder(
        model.embed_target(shifted),
        model.encode(source),
        attention_mask=padding_mask(shifted),
        memory_mask=padding_mask(source),
        return_weights=True,
    )
    return weights


def attend_ids(model, source, target):
    """Returns what every head attends to while it gives a translation.

    Args:
        model: Transformer.
        source: int32 [B, S], each ending with the end id, then padding.
        target: int32 [B, T], the same.

    Returns:
        As `Transformer.attention`. Row t of `decoder` and `cross` is of the
        step that gives `target[:, t]`; the keys of `decoder` are what the
        decoder was given, the begin id and `target[:, :-1]`.
    """
    return model.attention({"source": source, "target": _shifted(target)})


def _shifted(target):
    begin = ops.full_like(target[:, :1], BEGIN_ID)
    return ops.concatenate([begin, target[:, :-1]], axis=1)
