"""What the readers of pretrained models have in common."""

import typing

import numpy as np

import keras_transformer as kt
from export.common.errors import InputError
from export.pretrained.vocabulary import MISSING_ROW
from export.pretrained.weight_mapping import marian_columns

# The bias of an id that must take no part in the softmax.
EXCLUDED = -1e9
MAX_VOCABULARY = 2**24


class Pretrained(typing.NamedTuple):
    """A pretrained model as it is read.

    Attributes:
        model: Transformer.
        vocabulary: bytes of a `vocabulary.model`.
        source_language: code, or None where the directory does not say.
        target_language: the same.
        notes: list of str: settings of the directory that have no effect here.
    """

    model: kt.Transformer
    vocabulary: bytes
    source_language: str | None
    target_language: str | None
    notes: list[str]


def make_config(file, width, num_heads, layers, **fields):
    """Returns the TransformerConfig of a Marian network.

    Args:
        file: name of the file it is described in, for messages.
        width: d_model.
        num_heads: number of attention heads.
        layers: numbers of layers of encoder and decoder.
        **fields: other fields of the TransformerConfig.
    """
    encoder, decoder = layers
    if width % num_heads:
        raise InputError(
            f"{file} has a width of {width}, which its {num_heads} attention "
            "heads do not divide."
        )
    try:
        return kt.TransformerConfig(
            num_layers=encoder,
            num_decoder_layers=0 if decoder == encoder else decoder,
            d_model=width,
            num_heads=num_heads,
            d_k=width // num_heads,
            d_v=width // num_heads,
            norm="post",
            **fields,
        )
    except ValueError as error:
        raise InputError(f"{file} cannot be used: {error}") from error


def set_embeddings(model, tables, bias, source, target):
    """Sets the embeddings of a Transformer and the bias of its output.

    Args:
        model: Transformer.
        tables: dict of the checkpoint's matrices [V', D] of the "source",
            "target" and "output", without those that are tied to another.
        bias: float32 [V'] of the output; not used where the model has none.
        source: Vocabulary of the source.
        target: Vocabulary of the target.
    """
    columns = marian_columns(model.config.d_model)
    sides = {"source": source, "target": target, "output": target}
    for name, table in tables.items():
        embedding = getattr(model, f"{name}_embedding")
        rows = _select_rows(table, sides[name].rows, 0.0)
        embedding.embeddings.assign(rows[:, columns])
    if model.config.output_bias:
        biases = _select_rows(bias, target.rows, EXCLUDED)
        model.output_embedding.bias.assign(biases)


def _select_rows(values, rows, missing):
    """Returns values [V', ...] in the order of the ids, [V, ...]."""
    selected = values[np.maximum(rows, 0)]
    selected[rows == MISSING_ROW] = missing
    return selected
