"""Reads a directory of `MarianMTModel.save_pretrained`."""

import pathlib
import typing
from collections.abc import Sequence

import numpy as np

import keras_transformer as kt
from export.common.errors import InputError
from export.pretrained.config_files import (
    HF_CONFIG_FIELDS,
    HF_GENERATION_FIELDS,
    Fields,
    read_fields,
    read_int,
    read_number,
    short_repr,
    validate_fields,
    wrong_value_error,
)
from export.pretrained.pretrained_model import PretrainedModel
from export.pretrained.vocabulary import (
    MISSING_ID,
    Vocabulary,
    read_vocabularies,
)
from export.pretrained.weight_mapping import (
    EXCLUDED_BIAS,
    MAX_VOCABULARY,
    layer_mappings,
    load_transformer,
    make_transformer_config,
    set_embeddings,
)
from export.pretrained.weights_file import WeightsFile, open_weights_file
from export.tokenizers.python_tokenizers import join_vocabularies
from keras_transformer.config import (
    FORBIDDEN_IDS,
    MAX_ALPHA,
    MAX_BEAMS,
    MAX_EXTRA_TOKENS,
    MAX_REPETITION_PENALTY,
    MIN_ALPHA,
    SMALLEST_FLOAT,
)

_CONFIG_FILE, _GENERATION_FILE = "config.json", "generation_config.json"
# Activations of a TransformerConfig by their names in transformers.
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "silu", "silu": "silu"}
# Default of PyTorch's LayerNorm in MarianMTModel; `export.marian` stores it.
_EPSILON = 1e-5
# Second names of fields of MarianConfig.
_ALIASES = {
    "hidden_size": "d_model",
    "num_hidden_layers": "encoder_layers",
    "num_attention_heads": "encoder_attention_heads",
}
# Defaults of MarianConfig, for a directory without generation_config.json.
_DEFAULT_IDS = {"decoder_start_token_id": 58100, "eos_token_id": 0}
# Sources are truncated to this number of tokens.
_MAX_SOURCE_TOKENS = 512
# The stopping criterion of a TransformerConfig by early_stopping.
STOP_CRITERIA = {True: "k_finished", False: "heuristic", "never": "exact"}
# Names of arrays.
_ENCODER = "model.encoder.embed_tokens.weight"
_DECODER = "model.decoder.embed_tokens.weight"
_SHARED, _OUTPUT = "model.shared.weight", "lm_head.weight"
_OUTPUT_BIAS = "final_logits_bias"
_POSITIONS = {
    "model.encoder.embed_positions.weight",
    "model.decoder.embed_positions.weight",
}
# By `share_embeddings`: the separate matrices, and possible names of each.
_EMBEDDING_NAMES = {
    "all": {"target": (_SHARED, _DECODER, _ENCODER, _OUTPUT)},
    "target-softmax": {"source": (_ENCODER,), "target": (_DECODER, _OUTPUT)},
    "none": {
        "source": (_ENCODER, _SHARED),
        "target": (_DECODER, _SHARED),
        "output": (_OUTPUT,),
    },
}
# Allowed error of stored sinusoids, in float32 or bfloat16.
_TOLERANCE = 5e-3


def read_hugging_face(folder: pathlib.Path) -> PretrainedModel:
    """Reads a directory of `save_pretrained` as a PretrainedModel.

    docs/pretrained.md lists the files. Raises InputError if one is missing,
    damaged or of another architecture.
    """
    # The default of MarianConfig is False, which no trained model uses.
    fields, generation, warnings = read_settings(
        folder, {"scale_embedding": False}, HF_CONFIG_FIELDS
    )
    is_shared = fields.get("share_encoder_decoder_embeddings", True)
    source_size = target_size = read_size(fields, "vocab_size")
    if not is_shared and "decoder_vocab_size" in fields:
        target_size = read_size(fields, "decoder_vocab_size")
    sizes = source_size, target_size
    (source, target), languages, vocabulary_warnings = read_vocabularies(
        folder, sizes, generation.begin_id, generation.end_id
    )
    if is_shared and source.checkpoint_ids != target.checkpoint_ids:
        raise InputError(
            f"{_CONFIG_FILE}: expected one vocabulary for source and target "
            "with share_encoder_decoder_embeddings=True, got two."
        )
    weights = open_weights_file(folder)
    bias, bias_warnings = read_bias(weights, target_size, target, generation)
    config = read_config(
        fields,
        vocabulary_size=len(target.checkpoint_ids),
        source_vocabulary_size=0 if is_shared else len(source.checkpoint_ids),
        output_bias=bool(bias.any() or MISSING_ID in target.checkpoint_ids),
        **generation.search_fields,
    )
    rates = _read_sinusoid_rates(weights, config.d_model)
    config = config.replace(sinusoid_rates=rates)
    model = read_transformer(weights, config, sizes, bias, source, target)
    warnings += vocabulary_warnings + bias_warnings
    vocabulary = join_vocabularies(source.proto, target.proto)
    return PretrainedModel(model, vocabulary, languages, warnings)


def read_settings(
    folder: pathlib.Path,
    defaults: dict[str, typing.Any],
    supported_values: Fields,
) -> tuple[dict[str, typing.Any], "GenerationSettings", list[str]]:
    """Returns the fields of config.json, GenerationSettings and warnings."""
    fields = defaults | read_fields(folder / _CONFIG_FILE)
    warnings = validate_fields(fields, supported_values, _CONFIG_FILE)
    path = folder / _GENERATION_FILE
    generation_fields = read_fields(path) if path.exists() else None
    generation, more_warnings = read_generation(fields, generation_fields)
    return fields, generation, warnings + more_warnings


def read_transformer(
    weights: WeightsFile,
    config: kt.TransformerConfig,
    sizes: Sequence[int],
    bias: np.ndarray,
    source: Vocabulary,
    target: Vocabulary,
) -> kt.Transformer:
    """Returns the Transformer of a WeightsFile.

    `sizes` are those of the vocabularies in the checkpoint; for `bias`,
    `source` and `target` see `set_embeddings`.
    """
    mappings = layer_mappings(config, is_hugging_face=True)
    embeddings = _read_embeddings(weights, config, sizes)
    names = {_SHARED, _ENCODER, _DECODER, _OUTPUT, _OUTPUT_BIAS, *_POSITIONS}
    model = load_transformer(config, weights, mappings, names)
    set_embeddings(model, embeddings, bias, source, target)
    return model


def read_config(
    fields: Fields, **other_fields: typing.Any
) -> kt.TransformerConfig:
    """Returns the TransformerConfig for the fields of config.json."""
    for alias, name in _ALIASES.items():
        if alias in fields and fields[alias] != fields.get(name):
            value, expected = fields[alias], f"the value of {name}"
            raise wrong_value_error(_CONFIG_FILE, alias, value, expected)
    share_embeddings = "none"
    if fields.get("tie_word_embeddings", True):
        is_shared = fields.get("share_encoder_decoder_embeddings", True)
        share_embeddings = "all" if is_shared else "target-softmax"
    return make_transformer_config(
        _CONFIG_FILE,
        {"num_heads": "encoder_attention_heads"},
        d_model=read_size(fields, "d_model", 2**16),
        num_heads=_read_equal_sizes(fields, "attention_heads", 2**12),
        encoder_layers=read_size(fields, "encoder_layers", 1000),
        decoder_layers=read_size(fields, "decoder_layers", 1000),
        d_ff=_read_equal_sizes(fields, "ffn_dim", 2**20),
        layer_norm_epsilon=fields.get("layer_norm_epsilon", _EPSILON),
        activation=_ACTIVATIONS[fields.get("activation_function", "gelu")],
        share_embeddings=share_embeddings,
        alignment_layer=fields.get("alignment_layer", -2),
        alignment_heads=fields.get("alignment_heads", 0),
        dropout=fields.get("dropout", 0.1),
        attention_dropout=fields.get("attention_dropout", 0.0),
        activation_dropout=fields.get("activation_dropout", 0.0),
        **other_fields,
    )


def read_size(fields: Fields, name: str, maximum: int = MAX_VOCABULARY) -> int:
    """Returns a positive number of config.json."""
    return read_int(fields, name, maximum, _CONFIG_FILE)


def _read_equal_sizes(fields, name, maximum):
    encoder = read_size(fields, f"encoder_{name}", maximum)
    decoder = read_size(fields, f"decoder_{name}", maximum)
    if encoder != decoder:
        name, expected = f"decoder_{name}", f"{encoder} as encoder_{name}"
        raise wrong_value_error(_CONFIG_FILE, name, decoder, expected)
    return encoder


def read_bias(
    weights: WeightsFile,
    size: int,
    target: Vocabulary,
    generation: "GenerationSettings",
) -> tuple[np.ndarray, list[str]]:
    """Returns the bias of the logits, float32 [V'], and warnings."""
    bias = np.zeros(size, np.float32)
    if _OUTPUT_BIAS in weights.names:
        # The bias is shorter where only the embeddings were padded.
        stored = min([*weights.shape(_OUTPUT_BIAS)[-1:], size])
        bias[:stored] = weights.read(_OUTPUT_BIAS, (1, stored))[0]
    suppressed = {i for i in generation.suppressed_ids if 0 <= i < size}
    warnings = []
    if not generation.renormalize_logits:
        # Forbidden ids are never generated here, but count in the softmax.
        suppressed -= {target.checkpoint_ids[i] for i in FORBIDDEN_IDS}
        if suppressed:
            warnings.append(
                f"suppressed tokens, such as {min(suppressed)}, have no share "
                "of the softmax here, and have one in transformers: scores "
                "differ by it"
            )
    bias[list(suppressed)] = EXCLUDED_BIAS
    return bias, warnings


def _read_embeddings(weights, config, sizes):
    """Returns the matrices [V', D] by name: source, target, output."""
    embeddings = {}
    for matrix, names in _EMBEDDING_NAMES[config.share_embeddings].items():
        shape = (sizes[matrix != "source"], config.d_model)
        present = [name for name in names if name in weights.names]
        first, *others = present or names
        embedding = embeddings[matrix] = weights.read_stored(first, shape)
        if config.share_embeddings == "none":
            continue
        for name in others:
            if not np.array_equal(weights.read_stored(name, shape), embedding):
                raise InputError(
                    f"{weights.path}: expected one matrix for {name} and "
                    f"{first}, as {_CONFIG_FILE} says, got two."
                )
    return embeddings


def _read_sinusoid_rates(weights, width):
    """Returns `sinusoid_rates` of the stored positions; "paper" if none."""
    stored = {
        name: weights.read(name, (*weights.shape(name)[:1], width))
        for name in _POSITIONS
        if name in weights.names
    }
    for rates, divisor in (("paper", width // 2), ("marian", width // 2 - 1)):
        if all(
            np.allclose(table, _sinusoids(*table.shape, divisor), 0, _TOLERANCE)
            for table in stored.values()
        ):
            return rates
    raise InputError(
        f"{weights.path}: expected the sinusoids of the paper or of "
        f"Marian for {' and '.join(stored)}, got other positions."
    )


def _sinusoids(length, width, divisor):
    """Returns [sines | cosines], float [length, width]."""
    rates = 10000.0 ** (-np.arange(width // 2) / max(divisor, 1))
    angles = np.arange(length)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], 1)


class GenerationSettings(typing.NamedTuple):
    """Defaults of `generate` in transformers; ids are the checkpoint's."""

    # Fields of a TransformerConfig.
    search_fields: dict
    begin_id: int
    end_id: int
    # Ids that are never generated; whether the softmax excludes them.
    suppressed_ids: set[int]
    renormalize_logits: bool


def read_generation(
    config: Fields, generation: Fields | None
) -> tuple[GenerationSettings, list[str]]:
    """Returns GenerationSettings as transformers does, and warnings.

    `config` has the fields of config.json, and `generation` the fields of
    generation_config.json; if this is None, `config` has the settings.
    """
    file = _GENERATION_FILE
    fields: typing.Any = generation
    if generation is None:
        names = config.keys() & HF_GENERATION_FIELDS.keys()
        file = _CONFIG_FILE
        fields = _DEFAULT_IDS | {name: config[name] for name in names}
    warnings = validate_fields(fields, HF_GENERATION_FIELDS, file)
    end = _read_end_id(fields, file)
    begin = fields.get("decoder_start_token_id", fields.get("bos_token_id"))
    if not _is_id(begin):
        raise wrong_value_error(file, "decoder_start_token_id", begin, "one id")
    ids = {"decoder_start_token_id": begin, "eos_token_id": end}
    for name, value in ids.items():
        if config.get(name, value) not in (value, [value]):
            expected = f"{value} as in {file}"
            raise wrong_value_error(_CONFIG_FILE, name, config[name], expected)

    def read(name, maximum, default=None, minimum=1):
        return read_int(fields, name, maximum, file, default, minimum)

    # max_length counts the token that the decoder begins with. By default
    # `generate` ends after 20 more.
    max_tokens = read("max_length", MAX_EXTRA_TOKENS + 1, 21) - 1
    if "max_new_tokens" in fields:
        max_tokens = read("max_new_tokens", MAX_EXTRA_TOKENS)
    if max_tokens < _MAX_SOURCE_TOKENS - 1:
        warnings.append(
            f"{file} ends an output after {max_tokens} tokens, whatever its "
            f"source; here it may have {max_tokens} more than its source"
        )
    early_stopping = fields.get("early_stopping", False)
    settings = GenerationSettings(
        search_fields={
            "beam_size": read("num_beams", MAX_BEAMS, 1),
            "alpha": read_number(
                fields, "length_penalty", MIN_ALPHA, MAX_ALPHA, file, 1.0
            ),
            "length_penalty": "power",
            "stop_criterion": STOP_CRITERIA[early_stopping],
            "max_extra_tokens": max_tokens,
            "no_repeat_ngram_size": read(
                "no_repeat_ngram_size", MAX_EXTRA_TOKENS, 0, 0
            ),
            "repetition_penalty": read_number(
                *(fields, "repetition_penalty", SMALLEST_FLOAT),
                *(MAX_REPETITION_PENALTY, file, 1.0),
            ),
        },
        begin_id=begin,
        end_id=end,
        suppressed_ids=_read_suppressed_ids(fields, end, file, warnings),
        renormalize_logits=fields.get("renormalize_logits", False),
    )
    return settings, warnings


def _read_end_id(fields, file):
    end = fields.get("eos_token_id")
    ends = end if isinstance(end, list) else [end]
    if len(ends) != 1 or not _is_id(ends[0]):
        raise wrong_value_error(file, "eos_token_id", end, "one id")
    forced = fields.get("forced_eos_token_id", ends[0])
    if forced not in (ends[0], ends):
        expected = f"eos_token_id, {ends[0]},"
        raise wrong_value_error(file, "forced_eos_token_id", forced, expected)
    return ends[0]


def _read_suppressed_ids(fields, end, file, warnings):
    """Returns the ids never to be generated, and appends warnings."""
    tokens = fields.get("suppress_tokens", [])
    words = fields.get("bad_words_ids", [])
    if not _is_list_of_ints(tokens):
        expected = "a list of ids"
        raise wrong_value_error(file, "suppress_tokens", tokens, expected)
    if not isinstance(words, list) or not all(map(_is_list_of_ints, words)):
        raise wrong_value_error(file, "bad_words_ids", words, "lists of ids")
    # `generate` ignores a bad word that is the end id alone.
    words = [word for word in words if word != [end]]
    suppressed = {*tokens, *(word[0] for word in words if len(word) == 1)}
    if end in suppressed:
        raise wrong_value_error(file, "suppress_tokens", end, "no eos_token_id")
    longer = [word for word in words if len(word) != 1]
    if longer:
        warnings.append(
            f"bad_words_ids of {file} has words of several tokens, such as "
            f"{short_repr(longer[0])}, which are not suppressed here"
        )
    return suppressed


def _is_list_of_ints(value):
    return isinstance(value, list) and all(type(each) is int for each in value)


def _is_id(value):
    return type(value) is int and value >= 0
