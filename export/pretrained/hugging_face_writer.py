"""Writes a directory for `MarianMTModel.from_pretrained`.

Its decoder begins with `<pad>`, which replaces this package's begin id. This
package's padding becomes `<blank>` if it counts in the softmax, as in models
trained here.
"""

import json
import pathlib
from collections.abc import Sequence

import numpy as np
import safetensors.numpy
import sentencepiece
from keras import ops

import keras_transformer as kt
from export.common.errors import InputError
from export.pretrained.config_files import (
    ACTIVATIONS,
    ANY,
    architecture_fields,
    split_keys,
    validate_config,
)
from export.pretrained.hugging_face_reader import STOP_CRITERIA
from export.pretrained.vocabulary import PADDING_ENTRY
from export.pretrained.weight_mapping import (
    layer_arrays,
    layer_mappings,
    marian_columns,
)
from export.tokenizers.python_tokenizers import (
    LANGUAGE_PAIR,
    read_kind,
    split_vocabulary,
)
from keras_transformer.config import (
    BEGIN_ID,
    END_ID,
    FORBIDDEN_IDS,
    PAD_ID,
    UNKNOWN_ID,
)
from keras_transformer.loss import MIN_POSSIBLE_LOGIT

# Supported values by field; other fields must have their default.
_SUPPORTED_VALUES = split_keys(
    {
        "vocabulary_size source_vocabulary_size num_layers num_decoder_layers "
        "d_model d_ff num_heads d_k d_v layer_norm_epsilon beam_size alpha "
        "max_extra_tokens alignment_layer alignment_heads "
        "no_repeat_ngram_size repetition_penalty "
        # Has no effect without learned positions.
        "max_positions": ANY,
        "activation": tuple(ACTIVATIONS),
        "share_embeddings": ("all", "target-softmax", "none"),
        "output_bias": (False, True),
        # MarianMTModel always ranks by "power", as export.marian prints.
        "length_penalty": ("gnmt", "power"),
        "stop_criterion": tuple(STOP_CRITERIA.values()),
    }
)
# Names of this package's special ids in MarianTokenizer.
_SPECIAL_PIECES = {
    END_ID: "</s>",
    UNKNOWN_ID: "<unk>",
    BEGIN_ID: "<pad>",
    PAD_ID: PADDING_ENTRY,
}


def write_hugging_face(
    model: kt.Transformer,
    vocabulary: bytes,
    languages: Sequence[str | None],
    folder: pathlib.Path,
) -> None:
    """Writes the files of a MarianMTModel and its tokenizer to a folder.

    `vocabulary` are the bytes of a `vocabulary.model`, `languages` the codes of
    source and target or None. Raises InputError if MarianMTModel cannot
    represent the model.
    """
    config = model.config
    advice = "CTranslate2 may take this model (export.ctranslate2)"
    validate_config(config, _SUPPORTED_VALUES, "MarianMTModel", advice)
    source_ids, target_ids = _ids_in_order(model)
    source, target = split_vocabulary(vocabulary)
    if read_kind(source) == LANGUAGE_PAIR:
        raise InputError(
            "MarianMTModel has no sources with tags of both languages; "
            f"{advice}."
        )
    model_fields, generation_fields = _make_config_fields(
        config, source_ids, target_ids
    )
    files = {
        "config.json": model_fields,
        "generation_config.json": generation_fields,
        "tokenizer_config.json": {
            "tokenizer_class": "MarianTokenizer",
            "source_lang": languages[0],
            "target_lang": languages[1],
            "separate_vocabs": bool(config.source_vocabulary_size),
            "model_max_length": 512,
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "pad_token": "<pad>",
        },
        "vocab.json": _make_vocab(source, source_ids),
    }
    if config.source_vocabulary_size:
        files["target_vocab.json"] = _make_vocab(target, target_ids)
    for name, content in files.items():
        text = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    arrays = layer_arrays(model, layer_mappings(config, is_hugging_face=True))
    arrays |= _embedding_arrays(model, source_ids, target_ids)
    safetensors.numpy.save_file(
        arrays, folder / "model.safetensors", metadata={"format": "pt"}
    )


def _ids_in_order(model):
    """Returns the ids of source and target in the order of their new ids."""
    config = model.config
    if config.source_vocabulary_size:
        # Both sides must have the same ids of padding, begin and end.
        special = [END_ID, UNKNOWN_ID, BEGIN_ID, PAD_ID]
        return (
            [*special, *range(4, config.encoder_vocabulary_size)],
            [*special, *range(4, config.vocabulary_size)],
        )
    ids = [END_ID, UNKNOWN_ID, *range(4, config.vocabulary_size)]
    bias = model.output_embedding.bias
    if bias is None or ops.convert_to_numpy(bias)[PAD_ID] > MIN_POSSIBLE_LOGIT:
        ids.append(PAD_ID)
    ids.append(BEGIN_ID)
    return ids, ids


def _make_config_fields(config, source_ids, target_ids):
    """Returns the fields of config.json and generation_config.json."""
    special_ids = {
        "pad_token_id": target_ids.index(BEGIN_ID),
        "eos_token_id": target_ids.index(END_ID),
        "decoder_start_token_id": target_ids.index(BEGIN_ID),
        "bos_token_id": None,
    }
    model_fields = {
        **architecture_fields(config),
        "vocab_size": len(source_ids),
        "decoder_vocab_size": len(target_ids),
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": config.share_embeddings == "all",
        "tie_word_embeddings": config.share_embeddings != "none",
        "max_position_embeddings": 1024,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "dtype": "float32",
        # Ignored by MarianMTModel, read by export.import_marian.
        "layer_norm_epsilon": config.layer_norm_epsilon,
        "alignment_layer": config.alignment_layer,
        "alignment_heads": config.alignment_heads,
        **special_ids,
    }
    early_stopping = {stop: value for value, stop in STOP_CRITERIA.items()}
    forbidden_ids = [i for i in FORBIDDEN_IDS if i in target_ids]
    generation_fields = {
        **special_ids,
        "num_beams": config.beam_size,
        "length_penalty": config.alpha,
        "forced_eos_token_id": special_ids["eos_token_id"],
        "early_stopping": early_stopping[config.stop_criterion],
        "max_length": config.max_extra_tokens + 1,
        "no_repeat_ngram_size": config.no_repeat_ngram_size,
        "repetition_penalty": config.repetition_penalty,
        "suppress_tokens": [target_ids.index(i) for i in forbidden_ids],
    }
    return model_fields, generation_fields


def _make_vocab(proto, ids):
    """Returns the dict of a `vocab.json`, piece to new id."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    vocab = {}
    for new_id, token_id in enumerate(ids):
        piece = _SPECIAL_PIECES.get(token_id) or processor.IdToPiece(token_id)
        if piece in vocab:
            raise InputError(
                f"The vocabulary has the piece {piece!r}, which is a special "
                "token of MarianTokenizer; such a model cannot be written."
            )
        vocab[piece] = new_id
    return vocab


def _embedding_arrays(model, source_ids, target_ids):
    """Returns the embeddings and the output bias by name, float32."""
    columns = np.argsort(marian_columns(model.config.d_model))

    def select(embedding, ids):
        matrix = ops.convert_to_numpy(embedding.embeddings)
        return np.ascontiguousarray(matrix[ids][:, columns], np.float32)

    bias = np.zeros(len(target_ids), np.float32)
    if model.output_embedding.bias is not None:
        bias = ops.convert_to_numpy(model.output_embedding.bias)[target_ids]
    arrays = {"final_logits_bias": np.asarray(bias[None], np.float32)}
    target = select(model.target_embedding, target_ids)
    if model.config.share_embeddings == "all":
        return arrays | {"model.shared.weight": target}
    source = select(model.source_embedding, source_ids)
    arrays["model.encoder.embed_tokens.weight"] = source
    arrays["model.decoder.embed_tokens.weight"] = target
    if model.config.share_embeddings == "none":
        arrays["lm_head.weight"] = select(model.output_embedding, target_ids)
    return arrays
