"""Writes the folder that Optimum and transformers.js load.

Optimum's `ORTModelForSeq2SeqLM` and the browsers' transformers.js run a search
of their own over two graphs: an encoder, and a decoder of one step that returns
its keys and values.
"""

import pathlib
from collections.abc import Sequence

import numpy as np

import keras_transformer as kt
from export.common.storage import write_json
from export.onnx.graph import BOOL, FLOAT, INT64, Graph
from export.onnx.tokenizer_json import make_tokenizer_json
from export.onnx.transformer_graph import TransformerGraph
from export.pretrained.config_files import (
    ACTIVATIONS,
    ANY,
    architecture_fields,
    split_keys,
    validate_config,
)
from export.tokenizers.python_tokenizers import (
    LANGUAGE_PAIR,
    find_tags,
    read_kind,
    split_vocabulary,
)
from keras_transformer.config import BEGIN_ID, END_ID, FORBIDDEN_IDS, PAD_ID

# Positions, if the model has no limit of its own.
_MAX_POSITIONS = 1024
# Supported values by field; other fields must have their default. The beam is
# an argument of Optimum's search; transformers.js has none.
_SUPPORTED_VALUES = split_keys(
    {
        "vocabulary_size source_vocabulary_size num_layers num_decoder_layers "
        "d_model d_ff num_heads d_k d_v layer_norm_epsilon max_positions "
        "beam_size alpha length_penalty stop_criterion max_extra_tokens "
        "no_repeat_ngram_size repetition_penalty "
        "alignment_layer alignment_heads norm attention_bias output_bias "
        "share_embeddings positions sinusoid_rates": ANY,
        "activation": tuple(ACTIVATIONS),
    }
)


def write_transformers_files(
    model: kt.Transformer,
    vocabulary: bytes,
    languages: Sequence[str | None],
    folder: pathlib.Path,
    quantization: str | None = None,
) -> None:
    """Writes a model for Optimum and transformers.js to a folder.

    A source of a model with tags begins with the tag of its target's language,
    or, if it has tags of both languages, of its own: then the id of the
    target's tag is the `forced_bos_token_id` of the search. With a vocabulary
    for each side, `tokenizer.json` encodes sources, and that of the subfolder
    `target` decodes translations. Texts in capitals are translated as they are,
    without the marks of letter case.

    Args:
        model: the model to write.
        vocabulary: content of its `vocabulary.model`.
        languages: codes of source and target, or None.
        folder: an existing folder.
        quantization: "int8", or None for float32.

    Raises:
        InputError: if these programs cannot represent the model or its
            vocabulary.
    """
    config = model.config
    advice = "CTranslate2 may take this model (export.ctranslate2)"
    validate_config(config, _SUPPORTED_VALUES, "transformers.js", advice)
    source, target = split_vocabulary(vocabulary)
    tokenizers = [make_tokenizer_json(each) for each in (source, target)]
    fields = _list_json_files(config, quantization)
    model_fields, generation_fields, tokenizer_fields = fields
    if read_kind(source) == LANGUAGE_PAIR:
        # After the target's language, which is no part of the translation.
        generation_fields["min_length"] += 1
        if languages[1] in (tags := find_tags(target)):
            generation_fields["forced_bos_token_id"] = tags[languages[1]]
    write_json(folder / "config.json", model_fields)
    write_json(folder / "generation_config.json", generation_fields)
    folders = [folder]
    if tokenizers[0]["model"]["vocab"] != tokenizers[1]["model"]["vocab"]:
        folders.append(folder / "target")
    for each, tokenizer in zip(folders, tokenizers):
        write_json(each / "tokenizer.json", tokenizer)
        write_json(each / "tokenizer_config.json", tokenizer_fields)
    (folder / "onnx").mkdir()
    # For transformers.js the name of int8 weights.
    suffix = "_quantized.onnx" if quantization else ".onnx"
    names = "encoder_model", "decoder_model_merged"
    for name, write in zip(names, (_write_encoder, _write_decoder)):
        transformer = TransformerGraph(Graph(), model, quantization)
        write(transformer, folder / "onnx" / f"{name}{suffix}")


def _write_encoder(transformer, path):
    graph, width = transformer.graph, transformer.config.d_model
    shape = ["batch_size", "encoder_sequence_length"]
    inputs = dict.fromkeys(("input_ids", "attention_mask"), (INT64, shape))
    ids, attention_mask = map(graph.input, inputs)
    mask = transformer.mask_padding(attention_mask)
    states = graph.reshape(
        transformer.encode(ids, mask), -1, ids.size(1), width
    )
    outputs = {"last_hidden_state": (states, (FLOAT, [*shape, width]))}
    graph.save(path, inputs, outputs, {})


def _write_decoder(transformer, path):
    """Writes Q positions of the decoder after those of its cache.

    The cache is ignored, whatever its size, unless `use_cache_branch` is true.
    """
    graph, config = transformer.graph, transformer.config
    source_shape = ["batch_size", "encoder_sequence_length"]
    target_shape = ["batch_size", "decoder_sequence_length"]
    caches = _list_caches(config)
    inputs = {
        "encoder_attention_mask": (INT64, source_shape),
        "input_ids": (INT64, target_shape),
        "encoder_hidden_states": (FLOAT, [*source_shape, config.d_model]),
        **{f"past_key_values.{name}": info for name, info in caches.items()},
        "use_cache_branch": (BOOL, [1]),
    }
    attention_mask, ids, memory, *past, uses_cache = map(graph.input, inputs)

    def make_caches():
        rows = graph.reshape(memory, -1, config.d_model)
        heads = transformer.project_memory(rows, memory.size(1))
        values = []
        for keys_and_values in heads:
            for width in config.d_k, config.d_v:
                shape = ids.size(0), config.num_heads, 0, width
                values.append(graph.full(0.0, *shape))
            values += keys_and_values
        return values

    infos = [
        (FLOAT, ["batch_size", config.num_heads, None, shape[-1]])
        for _, shape in caches.values()
    ]
    values = graph.branch(uses_cache, infos, lambda: past, make_caches)
    layers = [values[i : i + 4] for i in range(0, len(values), 4)]
    start, length = values[0].size(2), ids.size(1)
    end = start + length
    positions = graph.op("Range", start[0], end[0], 1)
    keys = graph.op("Range", 0, end[0], 1)
    # -1e9 for keys after the query: [Q, M].
    mask = (keys > positions[:, None]).cast(FLOAT) * -1e9
    present = []

    def attend(index, heads):
        queries, *new = heads
        keys_and_values = [
            graph.concat(*each, axis=2) for each in zip(layers[index], new)
        ]
        present.extend([*keys_and_values, *layers[index][2:]])
        return transformer.attend(queries, *keys_and_values, length, mask)[0]

    states, _ = transformer.decode(
        ids,
        positions,
        (length, length),
        attend,
        [layer[2:] for layer in layers],
        transformer.mask_padding(attention_mask),
    )
    logits = transformer.logits(states)
    # transformers.js continues finished sentences until all are: with ends.
    others = np.full(config.vocabulary_size, -1e9, np.float32)
    others[END_ID] = 0.0
    ended = graph.reshape(graph.equal(ids, END_ID).cast(FLOAT), -1, 1)
    logits += ended * others
    if config.repetition_penalty != 1:
        # Applied to logits, but here to log-probabilities, which are negative.
        logits = graph.op("LogSoftmax", logits, axis=-1)
    logits = graph.reshape(logits, -1, length, config.vocabulary_size)
    outputs = {
        "logits": (logits, (FLOAT, [*target_shape, config.vocabulary_size]))
    }
    for (name, (kind, shape)), value in zip(caches.items(), present):
        info = kind, [*shape[:2], f"present_{shape[2]}", shape[3]]
        outputs[f"present.{name}"] = value, info
    graph.save(path, inputs, outputs, {})


def _list_caches(config):
    """Returns keys and values of each layer, in the order Optimum needs."""
    return {
        f"{index}.{side}.{name}": (
            FLOAT,
            ["batch_size", config.num_heads, f"{side}_cache_length", width],
        )
        for index in range(config.decoder_layers)
        for side in ("decoder", "encoder")
        for name, width in (("key", config.d_k), ("value", config.d_v))
    }


def _list_json_files(config, quantization):
    """Returns the contents of the JSON files without the tokenizer's."""
    size = _MAX_POSITIONS
    if config.positions == "learned":
        size = config.max_positions
    special_ids = {
        "pad_token_id": PAD_ID,
        "bos_token_id": BEGIN_ID,
        "eos_token_id": END_ID,
        "decoder_start_token_id": BEGIN_ID,
    }
    model_fields = {
        **architecture_fields(config),
        # Optimum takes it for the number of logits.
        "vocab_size": config.vocabulary_size,
        "decoder_vocab_size": config.vocabulary_size,
        "num_hidden_layers": config.num_layers,
        "max_position_embeddings": size,
        # What it loads by default.
        "transformers.js_config": {"dtype": "q8" if quantization else "fp32"},
        **special_ids,
    }
    generation_fields = {
        **special_ids,
        "forced_eos_token_id": END_ID,
        "suppress_tokens": [*FORBIDDEN_IDS],
        "max_length": size,
        # The begin id and one token before the end.
        "min_length": 2,
        # transformers.js has no beam search.
        "num_beams": 1,
        "no_repeat_ngram_size": config.no_repeat_ngram_size,
        "repetition_penalty": config.repetition_penalty,
    }
    tokenizer_fields = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "model_max_length": size,
        "clean_up_tokenization_spaces": False,
    }
    return model_fields, generation_fields, tokenizer_fields
