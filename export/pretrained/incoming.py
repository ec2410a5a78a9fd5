"""A model as it comes in, and the part of it that readers have in common."""

import typing

import numpy as np

import keras_transformer as kt
from export.errors import InputError
from export.files.places import readable
from export.pretrained.layout import stream_order
from export.pretrained.vocabulary import NO_ROW

# For what has no row of theirs and must take no part in the softmax.
NEVER = -1e9


class Pretrained(typing.NamedTuple):
    """A model as it comes in.

    Attributes:
        model: Transformer.
        vocabulary: bytes of both sides' SentencePiece models, as
            `export.tokenizers.vocabulary_file.join_sides` has them.
        source_language: code, or None where the directory does not say.
        target_language: the same.
        notes: list of str: what the directory asks for and ours does not do.
    """

    model: kt.Transformer
    vocabulary: bytes
    source_language: str | None
    target_language: str | None
    notes: list[str]


def set_embeddings(model, tables, bias, source, target):
    """Sets a Transformer's embeddings and the bias of its output.

    Args:
        model: Transformer.
        tables: dict of their matrices [V', D] of the "source", "target" and
            "output"; those that are another one's are left out.
        bias: float32 [V'] of their output; not used where the model has none.
        source: Vocabulary of the source.
        target: Vocabulary of the target.
    """
    order = stream_order(model.config.d_model)
    sides = {"source": source, "target": target, "output": target}
    for name, table in tables.items():
        embedding = getattr(model, f"{name}_embedding")
        rows = _by_row(table, sides[name].rows, 0.0)
        embedding.embeddings.assign(rows[:, order])
    if model.config.output_bias:
        model.output_embedding.bias.assign(_by_row(bias, target.rows, NEVER))


def _by_row(values, rows, missing):
    """Returns values [V', ...] in the order of our ids, [V, ...]."""
    found = values[np.maximum(rows, 0)]
    found[rows == NO_ROW] = missing
    return found


def refuse_unknown_arrays(arrays, known, network):
    """Refuses a file with arrays that have no place in the network.

    Args:
        arrays: Arrays.
        known: set of the names that have one.
        network: what they are no part of, for the message.

    Raises:
        InputError: there are some.
    """
    unknown = sorted(arrays.names - known)
    if unknown:
        raise InputError(
            f"{arrays.path} has {len(unknown)} arrays that no {network} has, "
            f"such as {unknown[0]}; the network is another one, which is not "
            "supported."
        )


def read_bytes(path):
    """Returns the content of a file.

    Raises:
        InputError: it cannot be read.
    """
    with readable(path):
        return path.read_bytes()
