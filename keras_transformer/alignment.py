"""Alignments: what the decoder attends to in the source (section 3.2.3)."""

from keras import ops

from keras_transformer.ensemble import Ensemble


def alignment_of(model, weights, layer=None):
    """Makes an alignment of cross-attention weights.

    Args:
        model: Transformer or Ensemble, of which the mean is taken.
        weights: N float32 [B, H, T, S], one of each decoder layer; of an
            ensemble such a list of each model.
        layer: number of the layer that is taken, from 1; None for the last
            but one, whose attention is nearest to what people call an
            alignment (Garg et al. 2019, section 5.1).

    Returns:
        float32 [B, T, S], mean over the heads.

    Raises:
        ValueError: there is no such layer.
    """
    if isinstance(model, Ensemble):
        each = [
            alignment_of(one, its_weights, layer)
            for one, its_weights in zip(model.models, weights)
        ]
        return ops.mean(ops.stack(each), axis=0)
    layers = model.config.num_layers
    if layer is None:
        layer = max(layers - 1, 1)
    if not 1 <= layer <= layers:
        raise ValueError(f"layer must be from 1 to {layers}, not {layer}.")
    return ops.mean(weights[layer - 1], axis=1)
