"""Reads a directory of `MarianMTModel.save_pretrained`."""

import typing

import numpy as np

from export.common.errors import InputError
from export.pretrained.checkpoint import open_weights_file
from export.pretrained.config_files import (
    CONFIG,
    GENERATION,
    check_fields,
    read_count,
    read_fields,
    shorten,
    wrong_value_error,
)
from export.pretrained.vocabulary import MISSING_ROW, read_vocabularies
from export.pretrained.weight_mapping import (
    EXCLUDED_BIAS,
    MAX_VOCABULARY,
    PretrainedModel,
    layer_slots,
    load_transformer,
    make_config,
    set_embeddings,
)
from export.tokenizers.python_tokenizers import join_vocabularies
from keras_transformer.config import FORBIDDEN_IDS, MAX_BEAMS, MAX_EXTRA_TOKENS

_CONFIG, _GENERATION = "config.json", "generation_config.json"
# From the activations of transformers to those of a TransformerConfig.
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}
# Default of PyTorch's LayerNorm in MarianMTModel; `export.marian` stores it.
_EPSILON = 1e-5
# Second names of the same fields in MarianConfig.
_ALIASES = {
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
    "num_attention_heads": "encoder_attention_heads",
}
_SHARED = "model.shared.weight"
_ENCODER = "model.encoder.embed_tokens.weight"
_DECODER = "model.decoder.embed_tokens.weight"
_HEAD, _BIAS = "lm_head.weight", "final_logits_bias"
_POSITIONS = (
    "model.encoder.embed_positions.weight",
    "model.decoder.embed_positions.weight",
)
# By `share_embeddings`: the matrices, and the possible names of each.
_MATRICES = {
    "all": {"target": (_SHARED, _DECODER, _ENCODER, _HEAD)},
    "target-softmax": {"source": (_ENCODER,), "target": (_DECODER, _HEAD)},
    "none": {
        "source": (_ENCODER, _SHARED),
        "target": (_DECODER, _SHARED),
        "output": (_HEAD,),
    },
}
# Allowed error of stored sinusoids, in float32 or bfloat16.
_TOLERANCE = 5e-3
# Defaults of MarianConfig, for a directory without generation_config.json.
_DEFAULT_IDS = {"decoder_start_token_id": 58100, "eos_token_id": 0}
# Sources are truncated to this number of tokens.
_MAX_SOURCE = 512
# The stopping criterion of a TransformerConfig by early_stopping.
STOP_CRITERIA = {True: "k_finished", False: "heuristic", "never": "exact"}


def read_hugging_face(folder):
    """Reads a directory of `save_pretrained` as a PretrainedModel.

    docs/pretrained.md lists the files. InputError if one is missing, damaged or
    of another architecture.
    """
    # The default of MarianConfig is False, which no trained model uses.
    fields = {"scale_embedding": False} | read_fields(folder / _CONFIG)
    notes = check_fields(fields, CONFIG, _CONFIG)
    has_generation = (folder / _GENERATION).exists()
    generation = read_generation(
        fields, read_fields(folder / _GENERATION) if has_generation else None
    )
    is_shared = fields.get("share_encoder_decoder_embeddings", True)
    source_rows = rows = _read_size(fields, "vocab_size")
    if not is_shared and "decoder_vocab_size" in fields:
        rows = _read_size(fields, "decoder_vocab_size")
    (source, target), languages, more_notes = read_vocabularies(
        folder, (source_rows, rows), generation.begin, generation.end
    )
    if is_shared and not np.array_equal(source.rows, target.rows):
        raise InputError(
            f"{_CONFIG}: expected one table of pieces for source and target "
            "with share_encoder_decoder_embeddings=True, got two."
        )
    checkpoint = open_weights_file(
        folder, ("model.safetensors", "pytorch_model.bin")
    )
    bias = _read_bias(checkpoint, rows, target, generation, notes)
    config = _make_config(
        fields,
        vocabulary_size=len(target.rows),
        source_vocabulary_size=0 if is_shared else len(source.rows),
        output_bias=bool(bias.any() or (target.rows == MISSING_ROW).any()),
        **generation.search,
    )
    rates = _read_rates(checkpoint, config.d_model)
    config = config.replace(sinusoid_rates=rates)
    slots = layer_slots(config, is_hugging_face=True)
    tables = _read_embeddings(checkpoint, config, source_rows, rows)
    names = {_SHARED, _ENCODER, _DECODER, _HEAD, _BIAS, *_POSITIONS}
    model = load_transformer(config, checkpoint, slots, names)
    set_embeddings(model, tables, bias, source, target)
    return PretrainedModel(
        model,
        join_vocabularies(source.proto, target.proto),
        languages,
        [*notes, *more_notes, *generation.notes],
    )


def _make_config(fields, **others):
    for alias, name in _ALIASES.items():
        if alias in fields and fields[alias] != fields.get(name):
            raise wrong_value_error(
                _CONFIG, alias, fields[alias], f"that of {name}"
            )
    is_tied = fields.get("tie_word_embeddings", True)
    is_shared = fields.get("share_encoder_decoder_embeddings", True)
    share_embeddings = "target-softmax" if is_tied else "none"
    return make_config(
        _CONFIG,
        _read_size(fields, "d_model", 2**16),
        _read_equal_sizes(fields, "attention_heads", 2**12),
        _read_size(fields, "encoder_layers", 1000),
        _read_size(fields, "decoder_layers", 1000),
        d_ff=_read_equal_sizes(fields, "ffn_dim", 2**20),
        layer_norm_epsilon=fields.get("layer_norm_epsilon", _EPSILON),
        activation=_ACTIVATIONS[fields.get("activation_function", "gelu")],
        share_embeddings="all" if is_tied and is_shared else share_embeddings,
        dropout=fields.get("dropout", 0.1),
        attention_dropout=fields.get("attention_dropout", 0.0),
        activation_dropout=fields.get("activation_dropout", 0.0),
        **others,
    )


def _read_size(fields, name, maximum=MAX_VOCABULARY):
    return read_count(fields, name, maximum, _CONFIG)


def _read_equal_sizes(fields, name, maximum):
    encoder, decoder = (
        _read_size(fields, f"{side}_{name}", maximum)
        for side in ("encoder", "decoder")
    )
    if encoder != decoder:
        expected = f"{encoder} as in the encoder"
        raise wrong_value_error(_CONFIG, f"decoder_{name}", decoder, expected)
    return encoder


def _read_bias(checkpoint, rows, target, generation, notes):
    """Returns the bias of the logits, float32 [V']."""
    bias = np.zeros(rows, np.float32)
    if _BIAS in checkpoint.names:
        # The bias is shorter where only the embeddings were padded.
        size = min([*checkpoint.shape(_BIAS)[-1:], rows])
        bias[:size] = checkpoint.read(_BIAS, (1, size))[0]
    suppressed = {row for row in generation.suppressed if 0 <= row < rows}
    if not generation.is_renormalized:
        # Forbidden ids are never generated here, but count in the softmax.
        suppressed -= set(target.rows[list(FORBIDDEN_IDS)])
        if suppressed:
            notes.append(
                f"suppressed tokens, such as {min(suppressed)}, have no share "
                "of the softmax here, and have one in transformers: scores "
                "differ by it"
            )
    bias[list(suppressed)] = EXCLUDED_BIAS
    return bias


def _read_embeddings(checkpoint, config, source_rows, rows):
    """Returns the matrices [V', D] by name: source, target, output."""
    tables = {}
    for table, names in _MATRICES[config.share_embeddings].items():
        present = [name for name in names if name in checkpoint.names] or names
        size = source_rows if table == "source" else rows
        shape = (size, config.d_model)
        tables[table] = checkpoint.read(present[0], shape)
        if config.share_embeddings == "none":
            continue
        for other in present[1:]:
            if not np.array_equal(checkpoint.read(other, shape), tables[table]):
                raise InputError(
                    f"{checkpoint.path}: expected one matrix for {other} and "
                    f"{present[0]}, as {_CONFIG} says, got two."
                )
    return tables


def _read_rates(checkpoint, width):
    """Returns `sinusoid_rates` of the stored positions; "paper" if none."""
    stored = {
        name: checkpoint.read(name, (*checkpoint.shape(name)[:1], width))
        for name in _POSITIONS
        if name in checkpoint.names
    }
    for rates, steps in (("paper", width // 2), ("marian", width // 2 - 1)):
        if all(
            np.allclose(table, _sinusoids(*table.shape, steps), 0, _TOLERANCE)
            for table in stored.values()
        ):
            return rates
    raise InputError(
        f"{checkpoint.path}: expected the sinusoids of the paper or of Marian "
        f"for {' and '.join(stored)}, got other positions."
    )


def _sinusoids(length, width, steps):
    """Returns [sines | cosines], float [length, width]."""
    rates = 10000.0 ** (-np.arange(width // 2) / max(steps, 1))
    angles = np.arange(length)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], 1)


class GenerationSettings(typing.NamedTuple):
    """The defaults of `generate` in transformers; ids are the checkpoint's."""

    # Fields of a TransformerConfig.
    search: dict
    begin: int
    end: int
    # Ids that are never generated; whether the softmax excludes them.
    suppressed: set[int]
    is_renormalized: bool
    notes: list[str]


def read_generation(config, generation):
    """Returns the GenerationSettings as transformers interprets them.

    `config` and `generation` are the fields of config.json, and of
    generation_config.json or None: then those of config.json apply.
    """
    file, fields = _GENERATION, generation
    if generation is None:
        file = _CONFIG
        fields = {name: config[name] for name in config if name in GENERATION}
        fields = _DEFAULT_IDS | fields
    notes = check_fields(fields, GENERATION, file)
    end = _read_end(fields, file)
    begin = fields.get("decoder_start_token_id", fields.get("bos_token_id"))
    if not _is_id(begin):
        raise wrong_value_error(file, "decoder_start_token_id", begin, "one id")
    for name, value in ("decoder_start_token_id", begin), ("eos_token_id", end):
        if config.get(name, value) not in (value, [value]):
            expected = f"{value} as in {file}"
            raise wrong_value_error(_CONFIG, name, config[name], expected)
    # max_length counts the token that the decoder begins with. By default
    # `generate` ends after 20 more.
    most = MAX_EXTRA_TOKENS + 1
    limit = read_count(fields, "max_length", most, file, 21) - 1
    if "max_new_tokens" in fields:
        limit = read_count(fields, "max_new_tokens", MAX_EXTRA_TOKENS, file)
    if limit < _MAX_SOURCE - 1:
        notes.append(
            f"{file} ends an output after {limit} tokens, whatever its "
            f"source; here it may have {limit} more than its source"
        )
    suppressed = _read_suppressed(fields, end, file, notes)
    search = {
        "beam_size": read_count(fields, "num_beams", MAX_BEAMS, file, 1),
        "alpha": fields.get("length_penalty", 1.0),
        "length_penalty": "power",
        "stop_criterion": STOP_CRITERIA[fields.get("early_stopping", False)],
        "max_extra_tokens": limit,
    }
    settings = search, begin, end, suppressed
    is_renormalized = fields.get("renormalize_logits", False)
    return GenerationSettings(*settings, is_renormalized, notes)


def _read_end(fields, file):
    end = fields.get("eos_token_id")
    ends = end if isinstance(end, list) else [end]
    if len(ends) != 1 or not _is_id(ends[0]):
        raise wrong_value_error(file, "eos_token_id", end, "one id")
    forced = fields.get("forced_eos_token_id", ends[0])
    if forced not in (ends[0], ends):
        expected = f"eos_token_id, {ends[0]},"
        raise wrong_value_error(file, "forced_eos_token_id", forced, expected)
    return ends[0]


def _read_suppressed(fields, end, file, notes):
    single = fields.get("suppress_tokens", [])
    words = fields.get("bad_words_ids", [])
    if not _is_ids(single):
        raise wrong_value_error(
            file, "suppress_tokens", single, "a list of ids"
        )
    if not isinstance(words, list) or not all(map(_is_ids, words)):
        raise wrong_value_error(file, "bad_words_ids", words, "lists of ids")
    # `generate` ignores a bad word that is the end id alone.
    words = [word for word in words if word != [end]]
    suppressed = {*single, *(word[0] for word in words if len(word) == 1)}
    if end in suppressed:
        raise wrong_value_error(file, "suppress_tokens", end, "no eos_token_id")
    longer = [word for word in words if len(word) != 1]
    if longer:
        notes.append(
            f"bad_words_ids of {file} has words of several tokens, such as "
            f"{shorten(longer[0])}, which are not suppressed here"
        )
    return suppressed


def _is_ids(value):
    return isinstance(value, list) and all(type(each) is int for each in value)


def _is_id(value):
    return type(value) is int and value >= 0
