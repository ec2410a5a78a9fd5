"""Fields that imports and exports know, and those of transformers.

These are allow-lists: a field that is not here, or has another value than
stands here, is refused, for a reader that ignores it would compute something
else without a word.
"""

import dataclasses
import json

from export.errors import InputError
from export.pretrained.incoming import read_bytes

# Read by the import, or of no influence on a result.
ANY = object()
# Fields of these roles say nothing of a trained model.
_OF_TRAINING = {"training", "ending"}
_SWITCHED_OFF = (False,)


def names_of(text):
    """Returns a dict of `ANY` for each word of a text."""
    return dict.fromkeys(text.split(), ANY)


def _fixed(value, text):
    return dict.fromkeys(text.split(), (value,))


# generation_config.json, transformers 3 to 5.24: all but `UNAVAILABLE`.
GENERATION = {
    **names_of(
        "max_length max_new_tokens num_beams length_penalty early_stopping "
        "eos_token_id decoder_start_token_id bos_token_id pad_token_id "
        "forced_eos_token_id suppress_tokens bad_words_ids "
        "min_length min_new_tokens"
    ),
    # Of sampling alone, and do_sample has a note.
    **names_of(
        "temperature top_k top_p min_p top_h typical_p epsilon_cutoff "
        "eta_cutoff"
    ),
    # Speed, memory, and what is returned besides.
    **names_of(
        "use_cache cache_implementation cache_config max_cache_len low_memory "
        "prefill_chunk_size compile_config disable_compile use_mtp "
        "continuous_batching_config return_dict_in_generate output_attentions "
        "output_hidden_states output_scores output_logits return_legacy_cache "
        "remove_invalid_values is_assistant num_assistant_tokens "
        "num_assistant_tokens_schedule assistant_confidence_threshold "
        "assistant_early_exit assistant_lookbehind target_lookbehind "
        "assistant_ensemble_weight speculation_type prompt_lookup_num_tokens "
        "max_matching_ngram_size transformers_version _from_model_config "
        "_commit_hash"
    ),
    "renormalize_logits": (False, True),
    "forced_bos_token_id": (),
}
# Settings of a search that ours lacks, and the values that switch them off;
# others have a note.
UNAVAILABLE = {
    **_fixed(False, "do_sample token_healing"),
    **_fixed(
        1,
        "repetition_penalty encoder_repetition_penalty num_beam_groups "
        "guidance_scale num_return_sequences",
    ),
    **_fixed(
        0,
        "no_repeat_ngram_size encoder_no_repeat_ngram_size diversity_penalty "
        "penalty_alpha",
    ),
    "begin_suppress_tokens": ([],),
    "sequence_bias": ([], {}),
    "stop_strings": ([],),
    "constraints": ([],),
    "force_words_ids": ([],),
    "exponential_decay_length_penalty": (),
    "watermarking_config": (),
    "dola_layers": (),
    "max_time": (),
}
_LABELS_AND_ORIGIN = names_of(
    "_name_or_path name_or_path architectures transformers_version dtype "
    "torch_dtype _num_labels num_labels id2label label2id problem_type "
    "finetuning_task _commit_hash _attn_implementation attn_implementation "
    "_attn_implementation_autoset"
)
# config.json of a MarianMTModel, transformers 3 to 5.24.
CONFIG = {
    **GENERATION,
    **dict.fromkeys(UNAVAILABLE, ANY),
    **names_of("forced_bos_token_id renormalize_logits"),
    **_LABELS_AND_ORIGIN,
    # Read by the import.
    **names_of(
        "model_type vocab_size decoder_vocab_size d_model encoder_layers "
        "decoder_layers encoder_ffn_dim decoder_ffn_dim hidden_size "
        "encoder_attention_heads decoder_attention_heads num_hidden_layers "
        "num_attention_heads activation_function dropout attention_dropout "
        "activation_dropout layer_norm_epsilon tie_word_embeddings "
        "share_encoder_decoder_embeddings"
    ),
    # Of training or memory alone, or of heads that no MarianMTModel has.
    **names_of(
        "init_std gradient_checkpointing use_cache return_dict torchscript "
        "use_return_dict chunk_size_feed_forward max_position_embeddings "
        "extra_pos_embeddings classifier_dropout classif_dropout "
        "tf_legacy_loss output_past sep_token_id"
    ),
    # What a Marian network may have and MarianMTModel and ours lack.
    **_fixed(
        True, "scale_embedding static_position_embeddings is_encoder_decoder"
    ),
    **_fixed(
        False,
        "normalize_before normalize_embedding add_final_layer_norm "
        "add_bias_logits force_bos_token_to_be_generated is_decoder "
        "add_cross_attention tie_encoder_decoder use_bfloat16 "
        "do_blenderbot_90_layernorm",
    ),
    "pruned_heads": ({}, []),
    "tokenizer_class": ("MarianTokenizer",),
}
# Of training, and of pipelines of transformers alone.
CONFIG_NOTES = {
    **_fixed(0, "encoder_layerdrop decoder_layerdrop"),
    "prefix": ("",),
    "task_specific_params": ({},),
}
# tokenizer_config.json and special_tokens_map.json of a MarianTokenizer.
TOKENIZER = {
    **names_of(
        "source_lang target_lang added_tokens_decoder "
        "additional_special_tokens extra_special_tokens bos_token sep_token "
        "cls_token mask_token"
    ),
    # Of batches, of training, or of where a file was.
    **names_of(
        "model_max_length max_len padding_side truncation_side "
        "model_input_names name_or_path special_tokens_map_file "
        "tokenizer_file source_spm target_spm vocab vocab_file "
        "target_vocab_file processor_class backend is_local "
        "local_files_only use_fast chat_template split_special_tokens "
        "spaces_between_special_tokens verbose init_inputs "
        "transformers_version"
    ),
    "separate_vocabs": (False, True),
    "tokenizer_class": ("MarianTokenizer",),
    "eos_token": ("</s>",),
    "unk_token": ("<unk>",),
    "pad_token": ("<pad>",),
    "sp_model_kwargs": ({},),
}
TOKENIZER_NOTES = {"clean_up_tokenization_spaces": _SWITCHED_OFF}


def check_fields(found, known, notes, file, form="{}={}"):
    """Refuses the fields of a file that an import does not know.

    Args:
        found: dict of the file's fields.
        known: dict, name to a tuple of values, or `ANY`.
        notes: dict, name to the values that need no note.
        file: its name, for messages.
        form: how a name and a value are shown.

    Returns:
        A list of str, notes on settings that ours lacks.

    Raises:
        InputError: a field is not known, or has a value that is not.
    """
    noted = []
    for name, value in found.items():
        allowed = known.get(name, notes.get(name))
        shown = form.format(short(name)[1:-1], short(value))
        if allowed is None:
            raise InputError(
                f"{file} has {shown}, a field that is not known here; remove "
                "it if the model does not need it."
            )
        if allowed is ANY or value in allowed:
            continue
        if name in known:
            expected = " or ".join(map(short, allowed)) or "removed"
            raise InputError(
                f"{file} has {shown}, which is not supported; it must be "
                f"{expected}."
            )
        noted.append(f"{shown} of {file} is not done here")
    return noted


def fields_not_held(config, held):
    """Returns the fields of a configuration that a format cannot hold.

    Args:
        config: TransformerConfig.
        held: dict, name to a tuple of the values that the format can hold, or
            `ANY`. Of fields that are not in it there is the default alone.

    Returns:
        A list of str, each as "name=value".
    """
    found = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        allowed = held.get(field.name, (field.default,))
        roles = set(field.metadata.get("roles", ()))
        if roles and roles <= _OF_TRAINING:
            continue
        if allowed is not ANY and value not in allowed:
            found.append(f"{field.name}={value}")
    return found


def short(value):
    """Returns a value as it is shown in a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def read_fields(path):
    """Returns a dict of the fields of a file that are not null.

    To transformers null is a field's default.

    Raises:
        InputError: it cannot be read, or is no JSON object.
    """
    try:
        found = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}.") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} must hold a JSON object.")
    return {name: each for name, each in found.items() if each is not None}


def read_optional(path):
    """Returns the same, or None where there is no such file."""
    return read_fields(path) if path.exists() else None
