"""Writes the files of Bergamot, the engine of Firefox's translations.

Its fork of Marian multiplies in int8: each matrix W, and the input x of each
product, has one multiplier, round(a x) round(b W) / (a b). Those of the inputs
are fixed, and chosen from what a model computes for some sentences.
"""

import collections
import operator
import pathlib
import struct
from collections.abc import Iterable, Mapping

import numpy as np
from keras import ops

import keras_transformer as kt
from export.common.errors import InputError
from export.pretrained.marian_writer import (
    ADVICE,
    OPTIONS,
    MarianModel,
    make_marian_model,
)
from export.pretrained.weight_mapping import layer_mappings
from keras_transformer.config import BEGIN_ID, END_ID
from keras_transformer.decoding.output_vocabulary import LexicalShortlist
from keras_transformer.types import TensorLike

_EMBEDDINGS = "Wemb"
# Types of arrays.
_FLOAT32, _INT8, _INTGEMM8 = 0x404, 0x101, 0x4101
# Headers and arrays begin at multiples of it, so that a file can be mapped.
_ALIGNMENT = 256
_LARGEST = 127
# Widths that its kernels support.
_WIDTH_MULTIPLE = 64
_SHORTLIST_MAGIC = 0xF11A48D5013417F5
# Ids that each shortlist begins with: the end and the unknown token.
_NUM_FIRST = 2
# Most frequent tokens that each sentence has, beside the special ones.
_NUM_FREQUENT = 100


def make_bergamot_model(
    model: kt.Transformer, vocabulary: bytes
) -> MarianModel:
    """Returns the MarianModel that the engine's files are made of.

    Changes the weights, in place, and raises as `make_marian_model`; raises
    InputError also for embeddings and widths that the engine lacks.
    """
    config = model.config
    for name, is_supported in (
        ("share_embeddings", config.share_embeddings == "all"),
        ("d_model", config.d_model % _WIDTH_MULTIPLE == 0),
        ("d_ff", config.d_ff % _WIDTH_MULTIPLE == 0),
    ):
        if not is_supported:
            raise InputError(
                f"Bergamot has no {name}={getattr(config, name)}, only one "
                f"matrix of embeddings and widths that are multiples of "
                f"{_WIDTH_MULTIPLE}; {ADVICE}."
            )
    return make_marian_model(model, vocabulary, "Bergamot")


def write_bergamot(
    marian: MarianModel,
    multipliers: Mapping[str, float],
    folder: pathlib.Path,
    shortlist: LexicalShortlist | None = None,
) -> None:
    """Writes `model.bin`, `vocab.spm` and, from a shortlist, `lex.bin`.

    `multipliers` are those of `measure_multipliers`; `shortlist` has the likely
    translations of each source id.
    """
    (folder / "model.bin").write_bytes(encode_model(marian, multipliers))
    for name, proto in marian.vocabularies.items():
        (folder / name).write_bytes(proto)
    if shortlist is not None:
        content = encode_shortlist(shortlist, marian)
        (folder / "lex.bin").write_bytes(content)


def measure_multipliers(
    model: kt.Transformer, pairs: Iterable[tuple[TensorLike, TensorLike]]
) -> dict[str, float]:
    """Returns the multipliers of the inputs of products, by array.

    As in Bergamot's scripts, each is 127 / (m + 1.1 s) for the mean m and the
    standard deviation s of the largest magnitude in a sentence. `model` is that
    of `make_bergamot_model`, `pairs` are the ids of sources and translations,
    each with its end.
    """
    largest = collections.defaultdict(list)
    layers = collections.defaultdict(list)
    for mapping in layer_mappings(model.config, is_hugging_face=False):
        side, index, attribute = mapping.weight_path
        name, _, weight = attribute.rpartition(".")
        if weight == "kernel":
            parent = getattr(model, side).layers[index]
            layers[operator.attrgetter(name)(parent)].append(mapping.name)

    def record(names, inputs):
        for name in names:
            largest[name].append(np.abs(ops.convert_to_numpy(inputs)).max())

    def recording(names, call):
        def record_and_call(inputs, *args, **kwargs):
            record(names, inputs)
            return call(inputs, *args, **kwargs)

        return record_and_call

    for layer, names in layers.items():
        layer.call = recording(names, layer.call)
    try:
        for source, target in pairs:
            given = np.append(BEGIN_ID, target)[:-1]
            ids = {"source": np.array([source]), "target": given[None]}
            # A product with the columns of a shortlist has the name "none".
            record([_EMBEDDINGS, "none"], model.hidden_states(ids)[1])
    finally:
        for layer in layers:
            del layer.call
    return {
        name: _LARGEST / (np.mean(values) + 1.1 * np.std(values))
        for name, values in largest.items()
    }


def encode_model(
    marian: MarianModel, multipliers: Mapping[str, float]
) -> bytes:
    """Returns the content of a `model.bin`, version 1 of Marian's binary.

    Matrices are int8, transposed except for the embeddings, and followed by
    their multiplier; `multipliers` are those of `measure_multipliers`.
    """
    # Type, shape and data by name.
    items = {}
    for name, array in sorted(marian.arrays.items()):
        if name not in multipliers:
            items[name] = _FLOAT32, array.shape, array.tobytes()
            continue
        largest = np.abs(array).max()
        if not 0 < largest < np.inf:
            raise InputError(
                f"{name} has no finite weight but 0; export a trained model."
            )
        multiplier = np.float32(_LARGEST / largest)
        values = np.rint(array * multiplier).astype(np.int8)
        values = values if name == _EMBEDDINGS else values.T
        data = values.tobytes() + multiplier.tobytes()
        items[name] = _INTGEMM8, array.shape, data
    for name, value in sorted(multipliers.items()):
        data = struct.pack("<f", value)
        items[f"{name}_QuantMultA"] = _FLOAT32, (1, 1), data
    items[OPTIONS] = _INT8, (len(marian.options),), marian.options
    headers, names, shapes, contents = [], [], [], []
    for name, (kind, shape, data) in items.items():
        names.append(name.encode() + b"\0")
        contents.append(data + bytes(-len(data) % _ALIGNMENT))
        sizes = len(names[-1]), kind, len(shape), len(contents[-1])
        headers.append(struct.pack("<4Q", *sizes))
        shapes.append(struct.pack(f"<{len(shape)}i", *shape))
    head = struct.pack("<2Q", 1, len(items))
    head += b"".join([*headers, *names, *shapes])
    padding = -(len(head) + 8) % _ALIGNMENT
    head += struct.pack("<Q", padding) + bytes(padding)
    return b"".join([head, *contents])


def encode_shortlist(shortlist: LexicalShortlist, marian: MarianModel) -> bytes:
    """Returns the content of a `lex.bin`, a shortlist of a joint vocabulary.

    A source's end, which is part of every sentence, has the frequent tokens.
    """
    targets, probabilities, frequencies = (
        ops.convert_to_numpy(weight) for weight in shortlist.weights
    )
    _, ids = marian.ids
    # Padding and the begin, which the engine lacks, stand for the end.
    new_ids = np.zeros(len(targets), np.int64)
    new_ids[ids] = np.arange(len(ids))
    frequent = np.argsort(-frequencies, kind="stable")
    frequent = frequent[: _NUM_FREQUENT + END_ID + 1]
    # Names are copied; and the engine's check refuses an empty last list.
    members = [{each} for each in range(len(marian.arrays[_EMBEDDINGS]))]
    for token_id, likely in zip(ids, members):
        likely |= {*new_ids[targets[token_id][probabilities[token_id] > 0]]}
    members[0] |= {*new_ids[frequent[frequencies[frequent] > 0]]}
    lists = [np.sort(np.array([*each], "<u4")) for each in members]
    offsets = np.cumsum([0, *map(len, lists)])
    body = struct.pack(
        "<4Q", _NUM_FIRST, targets.shape[1], len(offsets), offsets[-1]
    )
    body += offsets.astype("<u8").tobytes() + b"".join(map(bytes, lists))
    return struct.pack("<2Q", _SHORTLIST_MAGIC, _checksum(body)) + body


def _checksum(content):
    """Returns boost's hash_combine of all whole words of 64 bits."""
    seed = 0
    words = np.frombuffer(content[: len(content) // 8 * 8], "<u8")
    for word in words.tolist():
        seed ^= (word + 0x9E3779B9 + (seed << 6) + (seed >> 2)) % 2**64
    return seed
