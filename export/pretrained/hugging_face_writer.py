"""Writes a directory for `MarianMTModel.from_pretrained`.

Its decoder begins with `<pad>`, which stands for this package's begin id.
Padding is `<blank>` if it counts in the softmax, as in models trained here.
"""

import json

import numpy as np
import safetensors.numpy
import sentencepiece
from keras import ops

from export.common.errors import InputError
from export.pretrained.config_files import ANY, check_supported, expand_names
from export.pretrained.hugging_face_reader import STOP_CRITERIA
from export.pretrained.vocabulary import PADDING_ENTRY
from export.pretrained.weight_mapping import (
    layer_slots,
    marian_columns,
    read_layers,
)
from export.tokenizers.python_tokenizers import split_vocabulary
from keras_transformer.config import (
    BEGIN_ID,
    END_ID,
    FORBIDDEN_IDS,
    PAD_ID,
    UNKNOWN_ID,
)

_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swish"}
# Supported values by field; other fields must have their default.
_SUPPORTED_VALUES = expand_names(
    {
        "vocabulary_size source_vocabulary_size num_layers num_decoder_layers "
        "d_model d_ff num_heads d_k d_v layer_norm_epsilon beam_size alpha "
        # Has no effect without learned positions.
        "max_extra_tokens max_positions": ANY,
        "activation": tuple(_ACTIVATIONS),
        "share_embeddings": ("all", "target-softmax", "none"),
        "output_bias": (False, True),
        # MarianMTModel always ranks by "power", as export.marian prints.
        "length_penalty": ("gnmt", "power"),
        "stop_criterion": tuple(STOP_CRITERIA.values()),
    }
)
_SPECIAL_PIECES = {
    END_ID: "</s>",
    UNKNOWN_ID: "<unk>",
    BEGIN_ID: "<pad>",
    PAD_ID: PADDING_ENTRY,
}
# Ids with a smaller bias do not count in the softmax.
_MIN_BIAS = -1e8


def write_hugging_face(model, vocabulary, languages, folder):
    """Writes the files of a MarianMTModel and its tokenizer to a folder.

    `vocabulary` are the bytes of a `vocabulary.model`, `languages` the codes of
    source and target or None. InputError if the format does not hold the model.
    """
    config = model.config
    check_supported(
        *(config, _SUPPORTED_VALUES, "MarianMTModel"),
        "CTranslate2 may take this model (export.ctranslate2)",
    )
    source_ids, target_ids = _ids_by_row(model)
    source, target = split_vocabulary(vocabulary)
    network, generation = _make_configs(config, source_ids, target_ids)
    source_language, target_language = languages
    files = {
        "config.json": network,
        "generation_config.json": generation,
        "tokenizer_config.json": {
            "tokenizer_class": "MarianTokenizer",
            "source_lang": source_language,
            "target_lang": target_language,
            "separate_vocabs": bool(config.source_vocabulary_size),
            "model_max_length": 512,
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "pad_token": "<pad>",
        },
        "vocab.json": _make_vocab_json(source, source_ids),
    }
    if config.source_vocabulary_size:
        files["target_vocab.json"] = _make_vocab_json(target, target_ids)
    for name, content in files.items():
        text = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    arrays = read_layers(model, layer_slots(config, is_hugging_face=True))
    arrays |= _embedding_arrays(model, source_ids, target_ids)
    safetensors.numpy.save_file(
        arrays, folder / "model.safetensors", metadata={"format": "pt"}
    )


def _ids_by_row(model):
    """Returns the ids of source and target in the order of their rows."""
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
    if bias is None or ops.convert_to_numpy(bias)[PAD_ID] > _MIN_BIAS:
        ids.append(PAD_ID)
    ids.append(BEGIN_ID)
    return ids, ids


def _make_configs(config, source_ids, target_ids):
    special = {
        "pad_token_id": target_ids.index(BEGIN_ID),
        "eos_token_id": target_ids.index(END_ID),
        "decoder_start_token_id": target_ids.index(BEGIN_ID),
        "bos_token_id": None,
    }
    network = {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": len(source_ids),
        "decoder_vocab_size": len(target_ids),
        "d_model": config.d_model,
        "encoder_layers": config.num_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "activation_function": _ACTIVATIONS[config.activation],
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
        **special,
    }
    early_stopping = {stop: name for name, stop in STOP_CRITERIA.items()}
    generation = {
        **special,
        "num_beams": config.beam_size,
        "length_penalty": config.alpha,
        "forced_eos_token_id": special["eos_token_id"],
        "early_stopping": early_stopping[config.stop_criterion],
        "max_length": config.max_extra_tokens + 1,
        "suppress_tokens": [
            target_ids.index(number)
            for number in FORBIDDEN_IDS
            if number in target_ids
        ],
    }
    return network, generation


def _make_vocab_json(proto, ids):
    """Returns the dict of a `vocab.json`, piece to row."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    table = {}
    for row, number in enumerate(ids):
        name = _SPECIAL_PIECES.get(number) or processor.IdToPiece(number)
        if name in table:
            raise InputError(
                f"The vocabulary has the piece {name!r}, which is the name of "
                "a special one there; such a model cannot be written."
            )
        table[name] = row
    return table


def _embedding_arrays(model, source_ids, target_ids):
    columns = np.argsort(marian_columns(model.config.d_model))

    def rows(embedding, ids):
        matrix = ops.convert_to_numpy(embedding.embeddings)
        return np.ascontiguousarray(matrix[ids][:, columns], np.float32)

    bias = model.output_embedding.bias
    biases = np.zeros(len(target_ids), np.float32)
    if bias is not None:
        biases = np.asarray(ops.convert_to_numpy(bias), np.float32)[target_ids]
    target = rows(model.target_embedding, target_ids)
    arrays = {"final_logits_bias": biases[None]}
    if model.config.share_embeddings == "all":
        return arrays | {"model.shared.weight": target}
    source = rows(model.source_embedding, source_ids)
    arrays["model.encoder.embed_tokens.weight"] = source
    arrays["model.decoder.embed_tokens.weight"] = target
    if model.config.share_embeddings == "none":
        arrays["lm_head.weight"] = rows(model.output_embedding, target_ids)
    return arrays
