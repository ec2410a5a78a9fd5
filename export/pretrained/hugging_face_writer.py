"""A model of ours as a directory for `MarianMTModel.from_pretrained`."""

import json

import numpy as np
import safetensors.numpy
import sentencepiece
from keras import ops

from export.errors import InputError
from export.pretrained.architecture import hugging_face_config
from export.pretrained.layout import (
    HUGGING_FACE,
    places_of_layers,
    read_layers,
    stream_order,
)
from export.pretrained.vocabulary import PADDING_ENTRY
from export.tokenizers.vocabulary_file import split_sides
from keras_transformer.config import (
    BEGIN_ID,
    END_ID,
    FORBIDDEN_IDS,
    PAD_ID,
    UNKNOWN_ID,
)

_SPECIAL = {
    END_ID: "</s>",
    UNKNOWN_ID: "<unk>",
    BEGIN_ID: "<pad>",
    PAD_ID: PADDING_ENTRY,
}
# Of a row that takes no part in the softmax; see `incoming`.
_IMPOSSIBLE = -1e8


def write_hugging_face(model, vocabulary, languages, folder):
    """Writes the files of a directory.

    The begin piece of ours is `<pad>` there, with which its decoder begins.
    Padding of ours is an entry `<blank>` of its own where it has a share in
    the softmax, as in models that were trained here.

    Args:
        model: Transformer.
        vocabulary: bytes of its model directory's `vocabulary.model`.
        languages: codes of the source's and the target's, or None.
        folder: pathlib.Path, empty.

    Raises:
        InputError: MarianMTModel cannot hold such a model.
    """
    config = model.config
    order = _order(model)
    of_source = order
    if config.source_vocabulary_size:
        # Ids of padding, begin and end are those of both sides.
        specials = [END_ID, UNKNOWN_ID, BEGIN_ID, PAD_ID]
        order = [*specials, *range(4, config.vocabulary_size)]
        of_source = [*specials, *range(4, config.source_pieces)]
    ids = {number: place for place, number in enumerate(order)}
    network, generation = hugging_face_config(
        config,
        len(of_source),
        len(order),
        pad=ids[BEGIN_ID],
        end=ids[END_ID],
        never=[ids[each] for each in FORBIDDEN_IDS if each in ids],
    )
    source, target = split_sides(vocabulary)
    tables = {"vocab.json": _table(source, of_source)}
    if config.source_vocabulary_size:
        tables["target_vocab.json"] = _table(target, order)
    texts = {
        "config.json": network,
        "generation_config.json": generation,
        "tokenizer_config.json": _tokenizer_config(config, languages),
        **tables,
    }
    for name, content in texts.items():
        text = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    arrays = read_layers(model, places_of_layers(config, HUGGING_FACE))
    arrays |= _embeddings(model, of_source, order)
    safetensors.numpy.save_file(
        arrays, folder / "model.safetensors", metadata={"format": "pt"}
    )


def _order(model):
    """Returns our ids in the order of theirs."""
    order = [END_ID, UNKNOWN_ID, *range(4, model.config.vocabulary_size)]
    bias = model.output_embedding.bias
    if bias is None or ops.convert_to_numpy(bias)[PAD_ID] > _IMPOSSIBLE:
        order.append(PAD_ID)
    return [*order, BEGIN_ID]


def _table(proto, order):
    """Returns a dict, piece to their id."""
    pieces = sentencepiece.SentencePieceProcessor(model_proto=proto)
    names = [
        _SPECIAL.get(number) or pieces.IdToPiece(number) for number in order
    ]
    table = {name: place for place, name in enumerate(names)}
    if len(table) != len(names):
        twice = next(name for name in table if names.count(name) > 1)
        raise InputError(
            f"The vocabulary has the piece {twice!r}, which is the name of a "
            "special one there; such a model cannot be written."
        )
    return table


def _tokenizer_config(config, languages):
    source, target = languages
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": source,
        "target_lang": target,
        "separate_vocabs": bool(config.source_vocabulary_size),
        "model_max_length": 512,
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
    }


def _embeddings(model, of_source, order):
    columns = np.argsort(stream_order(model.config.d_model))

    def rows(embedding, ids):
        matrix = ops.convert_to_numpy(embedding.embeddings)
        return np.ascontiguousarray(matrix[ids][:, columns], np.float32)

    bias = model.output_embedding.bias
    biases = np.zeros(len(order), np.float32)
    if bias is not None:
        biases = np.asarray(ops.convert_to_numpy(bias), np.float32)[order]
    arrays = {"final_logits_bias": biases[None]}
    target = rows(model.target_embedding, order)
    sharing = model.config.share_embeddings
    if sharing == "all":
        return arrays | {"model.shared.weight": target}
    arrays["model.encoder.embed_tokens.weight"] = rows(
        model.source_embedding, of_source
    )
    arrays["model.decoder.embed_tokens.weight"] = target
    if sharing == "none":
        arrays["lm_head.weight"] = rows(model.output_embedding, order)
    return arrays
