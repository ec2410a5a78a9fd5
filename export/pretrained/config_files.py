"""Reads configuration files and validates their fields.

Allow-lists map each known field to its supported values. Any other field or
value is an error: ignoring it would silently compute something else.
"""

import dataclasses
import json
import math
import os
import pathlib
import re
import typing
from collections.abc import Mapping

from export.common.errors import InputError
from export.common.storage import explain_read_errors

if typing.TYPE_CHECKING:
    from keras_transformer.config import TransformerConfig

# Values, or supported values, by the name of a field.
Fields: typing.TypeAlias = Mapping[str, typing.Any]


class _AnyValue:
    def __contains__(self, value):
        return True


# The reader validates the value; no result depends on it.
ANY, IGNORED = _AnyValue(), _AnyValue()
# Roles of TransformerConfig's fields that do not affect a trained model.
_TRAINING_ROLES = {"training", "duration"}
# Booleans as text, as YAML writes them.
FALSE_STRINGS = ("false", "False", "no", "No", "off", "Off")
_BOOLEAN_STRINGS = (*FALSE_STRINGS, "true", "True", "yes", "Yes", "on", "On")


class _WarnUnless(tuple):
    """Values without a warning; all others are accepted with one."""


def split_keys(table: Fields) -> dict[str, typing.Any]:
    """Returns a dict with one entry for each word of each key."""
    return {word: value for key, value in table.items() for word in key.split()}


# Names of activations in config.json.
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swish"}
# generation_config.json of transformers 3 to 5.24.
HF_GENERATION_FIELDS = split_keys(
    {
        "max_length max_new_tokens num_beams length_penalty eos_token_id "
        "decoder_start_token_id bos_token_id forced_eos_token_id "
        "suppress_tokens bad_words_ids no_repeat_ngram_size "
        "repetition_penalty": ANY,
        # Sampling, speed, memory, and other outputs.
        "pad_token_id temperature top_k top_p min_p top_h typical_p "
        "epsilon_cutoff eta_cutoff use_cache cache_implementation cache_config "
        "max_cache_len low_memory prefill_chunk_size compile_config "
        "disable_compile use_mtp "
        "continuous_batching_config return_dict_in_generate output_attentions "
        "output_hidden_states output_scores output_logits return_legacy_cache "
        "remove_invalid_values is_assistant num_assistant_tokens "
        "num_assistant_tokens_schedule assistant_confidence_threshold "
        "assistant_early_exit assistant_lookbehind target_lookbehind "
        "assistant_ensemble_weight speculation_type prompt_lookup_num_tokens "
        "max_matching_ngram_size transformers_version _from_model_config "
        "_commit_hash": IGNORED,
        "early_stopping": (False, True, "never"),
        "renormalize_logits": (False, True),
        "forced_bos_token_id": (),
        # Here an output has a token and its end.
        "min_length": _WarnUnless([0, 1, 2]),
        "min_new_tokens": _WarnUnless([0, 1]),
        "do_sample token_healing": _WarnUnless([False]),
        "encoder_repetition_penalty num_beam_groups "
        "guidance_scale num_return_sequences": _WarnUnless([1]),
        "encoder_no_repeat_ngram_size diversity_penalty "
        "penalty_alpha": _WarnUnless([0]),
        "begin_suppress_tokens sequence_bias stop_strings constraints "
        "force_words_ids": _WarnUnless([[], {}]),
        "exponential_decay_length_penalty watermarking_config dola_layers "
        "max_time": _WarnUnless(),
    }
)
# config.json of a MarianMTModel of transformers 3 to 5.24.
HF_CONFIG_FIELDS = dict.fromkeys(HF_GENERATION_FIELDS, ANY) | split_keys(
    {
        "vocab_size decoder_vocab_size d_model encoder_layers decoder_layers "
        "encoder_ffn_dim decoder_ffn_dim hidden_size encoder_attention_heads "
        "decoder_attention_heads num_hidden_layers num_attention_heads "
        "dropout attention_dropout activation_dropout layer_norm_epsilon "
        # Written by export.marian alone.
        "alignment_layer alignment_heads": ANY,
        # Labels, origin, training, memory, heads of other models.
        "_name_or_path name_or_path architectures transformers_version dtype "
        "torch_dtype _num_labels num_labels id2label label2id problem_type "
        "finetuning_task _commit_hash _attn_implementation attn_implementation "
        "_attn_implementation_autoset init_std gradient_checkpointing "
        "use_cache return_dict torchscript use_return_dict output_past "
        "chunk_size_feed_forward max_position_embeddings extra_pos_embeddings "
        "classifier_dropout classif_dropout tf_legacy_loss "
        "sep_token_id": IGNORED,
        "activation_function": ("relu", "gelu", "swish", "silu"),
        "tie_word_embeddings share_encoder_decoder_embeddings": (False, True),
        # Other values belong to other networks.
        "scale_embedding static_position_embeddings is_encoder_decoder": (
            True,
        ),
        "normalize_before normalize_embedding add_final_layer_norm "
        "add_bias_logits force_bos_token_to_be_generated is_decoder "
        "add_cross_attention tie_encoder_decoder use_bfloat16 "
        "do_blenderbot_90_layernorm": (False,),
        "pruned_heads": ({}, []),
        "model_type": ("marian",),
        "tokenizer_class": ("MarianTokenizer",),
        "encoder_layerdrop decoder_layerdrop": _WarnUnless([0]),
        "prefix": _WarnUnless([""]),
        "task_specific_params": _WarnUnless([{}]),
    }
)
# tokenizer_config.json and special_tokens_map.json of a MarianTokenizer.
HF_TOKENIZER_FIELDS = split_keys(
    {
        "source_lang target_lang added_tokens_decoder": ANY,
        # Batches, training, and origin.
        "model_max_length max_len padding_side truncation_side "
        "model_input_names name_or_path special_tokens_map_file tokenizer_file "
        "source_spm target_spm vocab vocab_file target_vocab_file "
        "processor_class backend is_local local_files_only use_fast "
        "chat_template split_special_tokens spaces_between_special_tokens "
        "verbose init_inputs transformers_version": IGNORED,
        "separate_vocabs": (False, True),
        "tokenizer_class": ("MarianTokenizer",),
        "eos_token": ("</s>",),
        "unk_token": ("<unk>",),
        "pad_token": ("<pad>",),
        "sp_model_kwargs": ({},),
        "clean_up_tokenization_spaces": _WarnUnless([False]),
        "bos_token sep_token cls_token mask_token additional_special_tokens "
        "extra_special_tokens": _WarnUnless(["", [], {}]),
    }
)
# special:model.yml of Marian 1.5 to 1.12, and the same options in a decoder.yml
# of `--dump-config full`. "d" is dropout, which has no effect in a trained
# network.
MARIAN_MODEL_FIELDS = split_keys(
    {
        "dim-vocabs dim-emb enc-depth dec-depth transformer-heads "
        "transformer-dim-ffn transformer-decoder-dim-ffn "
        "transformer-guided-alignment-layer": ANY,
        # Origin, or excluded by other fields.
        "version "
        "dim-rnn enc-type enc-cell enc-cell-depth dec-cell skip "
        "dec-cell-base-depth dec-cell-high-depth layer-normalization "
        "transformer-rnn-projection transformer-dim-aan transformer-aan-depth "
        "transformer-aan-activation transformer-aan-nogate ulr-dim-emb "
        "ulr-trainable-transformation bert-type-vocab-size "
        "bert-train-type-embeddings lemma-dependency factors-combine "
        "factors-dim-emb transformer-alibi-shift transformer-alibi-trainable "
        "separator-symbol char-conv-filters-num char-conv-filters-widths "
        "char-highway char-stride transformer-depth-scaling "
        "embedding-fix-src embedding-fix-trg best-deep bert-mask-symbol "
        "bert-sep-symbol bert-class-symbol bert-masking-fraction "
        "comet-final-sigmoid comet-stop-grad comet-mix comet-mix-norm "
        "comet-pool comet-mix-transformation comet-dropout comet-mixup "
        "comet-mixup-reg comet-augment-bad comet-pooler-ffn "
        "comet-prepend-zero comet-use-separator": IGNORED,
        "transformer-no-projection transformer-pool transformer-no-bias "
        "transformer-train-position-embeddings transformer-train-positions "
        "transformer-disable-position-embeddings transformer-no-affine "
        "embedding-normalization input-join-fields right-left alibi "
        "ulr": FALSE_STRINGS,
        "tied-embeddings tied-embeddings-src tied-embeddings-all "
        "output-omit-bias": _BOOLEAN_STRINGS,
        "type": ("transformer",),
        # Marian's gelu was x * sigmoid(1.702 x) before version 1.12.
        "transformer-ffn-activation": ("relu", "swish"),
        "transformer-preprocess": ("", "d"),
        "transformer-postprocess": ("dan", "an"),
        "transformer-postprocess-emb": ("d", ""),
        "transformer-postprocess-top": ("", "d"),
        "transformer-decoder-autoreg": ("self-attention",),
        "transformer-ffn-depth": ("2",),
        "transformer-decoder-ffn-depth": ("0", "2"),
        "transformer-tied-layers": ([],),
        "transformer-attention-mask": ("default",),
        "lemma-dim-emb": ("0",),
        "input-types": ([], ["sequence", "sequence"]),
        "special-vocab input-reorder": ([], ""),
    }
)
# decoder.yml of Marian 1.5 to 1.12.
MARIAN_DECODER_FIELDS = split_keys(
    {
        " ".join(MARIAN_MODEL_FIELDS): IGNORED,
        "models vocabs beam-size normalize max-length-factor word-penalty "
        "max-length": ANY,
        # Paths, batches, devices, rounding, and other outputs.
        "relative-paths mini-batch mini-batch-words maxi-batch maxi-batch-sort "
        "max-length-crop workspace devices num-devices cpu-threads "
        "data-threads no-nccl fp16 precision optimize gemm-type quantize-range "
        "model-mmap log log-level log-time-zone quiet quiet-translation seed "
        "port n-best n-best-feature alignment word-scores stat-freq input "
        "output weights version authors cite build-info interpolate-env-vars "
        "check-nan encryption-key-path dump-config": IGNORED,
        "ignore-model-config": FALSE_STRINGS,
        "allow-unk allow-special force-decode skip-cost no-spm-encode "
        "no-spm-decode tsv": _WarnUnless(FALSE_STRINGS),
        "tsv-fields": _WarnUnless(["0"]),
        "shortlist output-approx-knn": _WarnUnless([[], ""]),
        "output-sampling": _WarnUnless([[], "", ["0"]]),
    }
)


def validate_fields(
    fields: Fields, supported_values: Fields, file: str | os.PathLike
) -> list[str]:
    """Returns warnings about fields of a file that are ignored.

    Raises InputError if a field is unknown or its value is not supported.
    """
    warnings = []
    for name, value in fields.items():
        if name not in supported_values:
            raise InputError(
                f"{file} has {short_repr(name)[1:-1]}={short_repr(value)}, an "
                "unknown field; remove it if the model does not need it."
            )
        values = supported_values[name]
        if value in values:
            continue
        if not isinstance(values, _WarnUnless):
            expected = " or ".join(map(short_repr, values)) or "no such field"
            raise wrong_value_error(file, name, value, expected)
        warnings.append(f"{name}={short_repr(value)} of {file} is ignored")
    return warnings


def wrong_value_error(
    file: str | os.PathLike, name: str, value: typing.Any, expected: str
) -> InputError:
    """Returns the InputError for a field with a wrong value."""
    return InputError(
        f"{file}: expected {expected} for {name}, got {short_repr(value)}."
    )


def read_int(
    fields: Fields,
    name: str,
    maximum: int,
    file: str | os.PathLike,
    default: typing.Any = None,
    minimum: int = 1,
) -> int:
    """Returns an integer in a range; YAML stores it as text."""
    value = fields.get(name, default)
    is_int = re.fullmatch("[0-9]{1,20}", str(value))
    if not is_int or not minimum <= int(value) <= maximum:
        expected = f"an integer from {minimum} to {maximum:,}"
        raise wrong_value_error(file, name, value, expected)
    return int(value)


def read_number(
    fields: Fields,
    name: str,
    least: float,
    most: float,
    file: str | os.PathLike,
    default: float,
) -> float:
    """Returns a number in a range as a float; YAML stores it as text."""
    value = fields.get(name, default)
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not least <= number <= most:
        expected = f"a number from {least:g} to {most:g}"
        raise wrong_value_error(file, name, value, expected)
    return number


def short_repr(value: typing.Any) -> str:
    """Returns the `repr` of a value, truncated to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def architecture_fields(config: "TransformerConfig") -> dict[str, typing.Any]:
    """Returns the fields of a MarianMTModel's config.json about its layers."""
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "d_model": config.d_model,
        "encoder_layers": config.num_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "activation_function": ACTIVATIONS[config.activation],
    }


def validate_config(
    config: "TransformerConfig",
    supported_values: Fields,
    program: str,
    advice: str,
) -> None:
    """Raises InputError if a program cannot represent a TransformerConfig.

    `supported_values` maps fields to values, or to ANY; all other fields must
    have their default.
    """
    unsupported = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        values = supported_values.get(field.name, (field.default,))
        roles = {*field.metadata.get("roles", ["architecture"])}
        if value not in values and roles - _TRAINING_ROLES:
            unsupported.append(f"{field.name}={value}")
    if not config.heads_fill_model:
        unsupported.append("d_k and d_v other than d_model / num_heads")
    if unsupported:
        raise InputError(f"{program} has no {unsupported[0]}; {advice}.")


def read_bytes(path: pathlib.Path) -> bytes:
    """Returns the content of a file; raises InputError if unreadable."""
    with explain_read_errors(path):
        return path.read_bytes()


def read_json(path: pathlib.Path) -> dict[str, typing.Any]:
    """Returns the object of a JSON file; raises InputError otherwise."""
    try:
        fields = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}.") from error
    if not isinstance(fields, dict):
        raise InputError(f"{path} must hold a JSON object.")
    return fields


def read_fields(
    path: pathlib.Path, missing_ok: bool = False
) -> dict[str, typing.Any]:
    """Returns the fields of a JSON file that are not null."""
    if missing_ok and not path.exists():
        return {}
    fields = read_json(path)
    return {name: value for name, value in fields.items() if value is not None}
