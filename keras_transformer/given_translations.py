"""What a model makes of translations that are given to it."""

from keras import ops

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


def align_ids(model, source, target, layer=None, memory=None):
    """Returns how much each target token attends to each source token.

    Args:
        model: Transformer or Ensemble, of which the mean is taken.
        source: int32 [B, S], each ending with the end id, then padding.
        target: int32 [B, T], the same.
        layer: number of the decoder layer whose cross-attention is taken,
            from 1; None for the last but one, whose attention is nearest to
            what people call an alignment (Garg et al. 2019, section 5.1).
        memory: `model.encode(source)`, where it has been made already.

    Returns:
        float32 [B, T, S], mean over the heads: row t is of the step that
        gives `target[:, t]`, sums to 1 and is 0 on padding.

    Raises:
        ValueError: there is no such layer.
    """
    if memory is None:
        memory = model.encode(source)
    if isinstance(model, Ensemble):
        each = [
            align_ids(one, source, target, layer, its_memory)
            for one, its_memory in zip(model.models, memory)
        ]
        return ops.mean(ops.stack(each), axis=0)
    layers = model.config.num_layers
    if layer is None:
        layer = max(layers - 1, 1)
    if not 1 <= layer <= layers:
        raise ValueError(f"layer must be from 1 to {layers}, not {layer}.")
    shifted = _shifted(target)
    *_, weights = model.decoder(
        model.embed_target(shifted),
        memory,
        attention_mask=padding_mask(shifted),
        memory_mask=padding_mask(source),
        return_weights=True,
    )
    return ops.mean(weights[layer - 1], axis=1)


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
