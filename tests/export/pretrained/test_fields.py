"""Every field of transformers' files is obeyed, noted or refused."""

import json
import shutil

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from export.common.errors import InputError
from export.pretrained.generation import read_generation
from export.pretrained.hugging_face_reader import read_hugging_face
from export.tokenizers.table_tokenizers import load_tokenizer
from tests.export.pretrained import marian_ids
from tests.export.pretrained.test_round_trip import assert_same_weights

# The fields of transformers' GenerationConfig, of 5.24 and of 4.57: those that
# may change what is generated, and those that do not without another one.
GENERATION = (
    "max_length max_new_tokens min_length min_new_tokens early_stopping "
    "max_time stop_strings do_sample num_beams num_beam_groups penalty_alpha "
    "dola_layers repetition_penalty encoder_repetition_penalty "
    "length_penalty no_repeat_ngram_size bad_words_ids force_words_ids "
    "renormalize_logits constraints forced_bos_token_id forced_eos_token_id "
    "exponential_decay_length_penalty suppress_tokens begin_suppress_tokens "
    "sequence_bias token_healing guidance_scale watermarking_config "
    "num_return_sequences eos_token_id encoder_no_repeat_ngram_size "
    "decoder_start_token_id diversity_penalty made_up"
)
WITHOUT_EFFECT = (
    "use_mtp use_cache cache_implementation cache_config max_cache_len "
    "temperature top_k top_p min_p top_h typical_p epsilon_cutoff eta_cutoff "
    "remove_invalid_values output_attentions output_hidden_states "
    "output_scores output_logits return_dict_in_generate pad_token_id "
    "bos_token_id is_assistant num_assistant_tokens "
    "num_assistant_tokens_schedule assistant_confidence_threshold "
    "prompt_lookup_num_tokens max_matching_ngram_size assistant_early_exit "
    "assistant_lookbehind target_lookbehind assistant_ensemble_weight "
    "speculation_type compile_config disable_compile low_memory "
    "continuous_batching_config prefill_chunk_size _from_model_config "
    "transformers_version return_legacy_cache"
)
# The same of MarianConfig and its base class, and of a MarianTokenizer.
FILES = {
    "config.json": (
        "vocab_size decoder_vocab_size encoder_layers encoder_ffn_dim "
        "encoder_attention_heads decoder_layers decoder_ffn_dim "
        "decoder_attention_heads encoder_layerdrop decoder_layerdrop "
        "is_encoder_decoder activation_function d_model scale_embedding "
        "eos_token_id share_encoder_decoder_embeddings is_decoder "
        "hidden_size num_hidden_layers num_attention_heads model_type "
        "tie_word_embeddings tie_encoder_decoder add_cross_attention dropout "
        "pruned_heads quantization_config auto_map per_layer_config prefix "
        "tokenizer_class task_specific_params decoder_start_token_id made_up"
    ),
    "tokenizer_config.json": (
        "eos_token unk_token pad_token additional_special_tokens bos_token "
        "extra_special_tokens added_tokens_decoder sp_model_kwargs mask_token "
        "sep_token cls_token tokenizer_class auto_map do_lower_case "
        "clean_up_tokenization_spaces made_up"
    ),
    "special_tokens_map.json": (
        "eos_token unk_token pad_token additional_special_tokens made_up"
    ),
    "added_tokens.json": "odd",
}
ODD = (7, 0.5, "odd", [5], [[5, 6]], {"odd": 1})
IDS = {"pad_token_id": 79, "eos_token_id": 0, "decoder_start_token_id": 79}


def generation_of(**changes):
    """What is read, or None where it is refused in one line."""
    try:
        return read_generation(IDS, IDS | {"max_length": 512} | changes)
    except InputError as error:
        assert len(str(error).splitlines()) == 1


def test_no_setting_of_a_search_is_ignored():
    base = generation_of()
    for name in GENERATION.split():
        is_switch = name in ("do_sample", "renormalize_logits")
        for value in (*ODD, 10**9, *([True] if is_switch else [])):
            found = generation_of(**{name: value})
            assert found != base, (name, value)
            if found and found._replace(notes=[]) == base:
                assert name in "".join(found.notes)
        assert generation_of(**{name: None}) is None or name not in IDS
    for name in WITHOUT_EFFECT.split():
        assert generation_of(**{name: 7}) == base


@pytest.fixture(name="folder", params=["separate"])
def fixture_folder(request, marian_folder, tmp_path):
    """A copy, to be changed."""
    copy = tmp_path / "hf"
    shutil.copytree(marian_folder / request.param, copy)
    (copy / "pytorch_model.bin").unlink(missing_ok=True)
    return copy


shared = pytest.mark.parametrize("folder", ["shared"], indirect=True)


def change(folder, name, **changes):
    path = folder / name
    found = json.loads(path.read_text("utf-8")) if path.exists() else {}
    path.write_text(json.dumps(found | changes), "utf-8")


@pytest.mark.parametrize("file", FILES)
def test_no_field_of_a_file_is_ignored(folder, file):
    base = read_hugging_face(folder)
    path = folder / file
    before = path.read_bytes() if path.exists() else b"{}"
    for name in FILES[file].split():
        stored = json.loads(before).get(name)
        for value in (*ODD, *([not stored] if type(stored) is bool else [])):
            change(folder, file, **{name: value})
            try:
                found = read_hugging_face(folder)
            except InputError as error:
                assert len(str(error).splitlines()) == 1
            else:
                is_noted = found.notes != base.notes
                is_changed = found.model.config != base.model.config
                assert is_noted or is_changed, (name, value)
            path.write_bytes(before)


@shared
def test_null_is_the_default_of_transformers(folder):
    defaults = {"num_beams": 1, "length_penalty": 1.0, "early_stopping": False}
    change(folder, "generation_config.json", **dict.fromkeys(defaults))
    # Not read, as there is a generation_config.json.
    change(folder, "config.json", num_beams=3, length_penalty=2.0)
    config = read_hugging_face(folder).model.config
    assert (config.beam_size, config.alpha, config.stop) == (
        1,
        1.0,
        "heuristic",
    )
    (folder / "generation_config.json").unlink()
    found = read_hugging_face(folder)
    assert (found.model.config.beam_size, found.model.config.alpha) == (3, 2.0)
    # `generate` ends after 20 tokens, where nothing else is asked for.
    assert found.model.config.max_output_extra == 20
    assert "after 20 tokens" in "".join(found.notes)
    change(folder, "config.json", scale_embedding=None)
    with pytest.raises(InputError, match="scale_embedding"):
        read_hugging_face(folder)


@shared
def test_the_fields_of_published_directories_are_known(folder):
    """As transformers 3 and 4 wrote them for OPUS-MT's models."""
    base = read_hugging_face(folder)
    off = "add_bias_logits add_final_layer_norm normalize_before torchscript"
    off += " normalize_embedding force_bos_token_to_be_generated do_sample"
    change(
        folder,
        "config.json",
        **dict.fromkeys([*off.split(), "gradient_checkpointing"], False),
        **dict.fromkeys(["classif_dropout", "classifier_dropout"], 0.0),
        **{"_name_or_path": "opus", "_num_labels": 3, "id2label": {"0": "a"}},
        **{"label2id": {"a": 0}, "num_hidden_layers": 2, "num_beams": 6},
        **{"static_position_embeddings": True, "bad_words_ids": [[79]]},
        **{"max_length": 512, "torch_dtype": "float32", "bos_token_id": 0},
        **{"extra_pos_embeddings": 80, "chunk_size_feed_forward": 0},
    )
    change(folder, "generation_config.json", bos_token_id=0)
    tokens = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    change(folder, "special_tokens_map.json", **tokens)
    objects = {
        name: {"content": token, "lstrip": False, "__type": "AddedToken"}
        for name, token in tokens.items()
    }
    change(
        folder,
        "tokenizer_config.json",
        **objects,
        **{"sp_model_kwargs": {}, "special_tokens_map_file": None},
        **{"model_max_length": 512, "tokenizer_class": "MarianTokenizer"},
        **{"vocab": "/tmp/vocab.json", "source_spm": "/tmp/source.spm"},
    )
    found = read_hugging_face(folder)
    assert found.notes == base.notes == []
    assert found.model.config == base.model.config
    assert_same_weights(found.model, base.model)


@shared
@pytest.mark.parametrize("renormalize", [False, True])
def test_suppressed_tokens_are_never_generated(folder, renormalize):
    """And have no share of the softmax, as renormalize_logits asks for."""
    change(
        folder,
        "generation_config.json",
        suppress_tokens=[1, 7, 9],
        bad_words_ids=[[79], [0], [5]],
        renormalize_logits=renormalize,
    )
    found = read_hugging_face(folder)
    # The unknown piece and the begin are never generated without that.
    expected = [-1, 5, 7, 9, *([1, 79] if renormalize else [])]
    bias = found.model.output_embedding.bias.numpy()
    absent = marian_ids.their_ids(folder, "target")[bias == -1e9]
    assert sorted(absent) == sorted(expected)
    assert bool(found.notes) != renormalize


SHARDS = tuple(f"model-0000{number}-of-00003.safetensors" for number in "123")


@shared
def test_dtypes_and_shards_are_taken_exactly(folder):
    base = read_hugging_face(folder).model
    stored = safetensors.numpy.load_file(folder / "model.safetensors")
    for dtype, names in (
        (ml_dtypes.bfloat16, SHARDS),
        (np.float16, ("model.safetensors",)),
    ):
        (folder / "model.safetensors").unlink(missing_ok=True)
        write_arrays(folder, stored, dtype, names)
        found = read_hugging_face(folder).model
        for one, other in zip(base.weights, found.weights, strict=True):
            value = one.numpy()
            # Our padding has no row in the file.
            rounded = np.clip(value, -1e3, 1e3).astype(dtype).astype("float32")
            expected = np.where(value == -1e9, value, rounded)
            np.testing.assert_array_equal(other, expected)


def write_arrays(folder, arrays, dtype, names):
    """Deals the arrays out to some files."""
    listed = sorted(arrays)
    for place, file in enumerate(names):
        part = {
            name: arrays[name].astype(dtype)
            for name in listed[place :: len(names)]
        }
        safetensors.numpy.save_file(part, folder / file)
    if len(names) > 1:
        weight_map = {
            name: names[place % len(names)] for place, name in enumerate(listed)
        }
        change(folder, "model.safetensors.index.json", weight_map=weight_map)


@shared
def test_a_wrong_index_is_one_clear_error(folder):
    path = folder / "model.safetensors"
    arrays = safetensors.numpy.load_file(path)
    path.unlink()
    write_arrays(folder, arrays, np.float32, SHARDS)
    for weight_map in (
        {"a": "../model.safetensors"},
        {"a": "/etc/passwd"},
        {"a": "config.json"},
        {"a": "model.safetensors.index.json"},
        {"a": SHARDS[0]},
        {"a": "none.safetensors"},
        {"a": 3},
        {},
        [],
    ):
        change(folder, "model.safetensors.index.json", weight_map=weight_map)
        with pytest.raises(InputError) as raised:
            read_hugging_face(folder)
        assert len(str(raised.value).splitlines()) == 1


@shared
def test_added_tokens_and_padded_rows_are_taken(folder):
    """As `resize_token_embeddings(82, pad_to_multiple_of=8)` leaves them."""
    texts = ["ka lo mi.", ">>fra<< vize bo"]
    base = read_hugging_face(folder)
    ids = load_tokenizer(base.vocabulary).source.encode(texts)
    path = folder / "model.safetensors"
    arrays = safetensors.numpy.load_file(path)
    generator = np.random.default_rng(1)
    more = generator.normal(size=(8, 16)).astype("float32")
    table = np.concatenate([arrays["model.shared.weight"], more])
    arrays["model.shared.weight"] = table
    change(folder, "config.json", vocab_size=88, decoder_vocab_size=88)
    change(folder, "added_tokens.json", **{"<ent>": 80, ">>gos<<": 81})
    token = {"content": "<ent>", "special": False, "lstrip": False}
    change(folder, "tokenizer_config.json", added_tokens_decoder={"80": token})
    stored_bias = arrays["final_logits_bias"]
    # Padding the embeddings may pad the bias, or not.
    for extra in (0, 2, 8):
        of_extra = generator.normal(size=(1, extra)).astype("float32")
        bias = np.concatenate([stored_bias, of_extra], 1)
        safetensors.numpy.save_file(arrays | {"final_logits_bias": bias}, path)
        found = read_hugging_face(folder)
        notes = "".join(found.notes)
        assert "such as <ent>" in notes and "no piece of 6 of" in notes
        tokenizer = load_tokenizer(found.vocabulary)
        for one, other in zip(ids, tokenizer.source.encode(texts)):
            np.testing.assert_array_equal(one, other)
        ((tag, *_),) = tokenizer.source.encode([">>gos<< ka"])
        # Behind padding are <unk>, <pad> and </s>, and then their 80 and 81.
        assert tag == 82
        embeddings = found.model.target_embedding.embeddings.numpy()
        np.testing.assert_array_equal(
            np.sort(embeddings[81:], axis=1), np.sort(table[80:], axis=1)
        )
        biases = found.model.output_embedding.bias.numpy()[81:]
        np.testing.assert_array_equal(biases[:extra], of_extra[0])
        assert not biases[extra:].any()


@shared
def test_names_of_tied_and_untied_matrices(folder):
    base = read_hugging_face(folder).model
    path = folder / "model.safetensors"
    arrays = safetensors.numpy.load_file(path)
    matrix = arrays.pop("model.shared.weight")
    names = [
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
        "lm_head.weight",
        "model.shared.weight",
    ]
    for name in names:
        safetensors.numpy.save_file(arrays | {name: matrix}, path)
        assert_same_weights(base, read_hugging_face(folder).model)
    safetensors.numpy.save_file(
        arrays | {names[0]: matrix, names[1]: matrix + 1}, path
    )
    with pytest.raises(InputError, match="one matrix"):
        read_hugging_face(folder)
    # As of transformers 5, nothing is tied then, and the shared one unused.
    change(folder, "config.json", tie_word_embeddings=False)
    untied = {name: matrix + place for place, name in enumerate(names)}
    safetensors.numpy.save_file(arrays | untied, path)
    model = read_hugging_face(folder).model
    assert model.config.share_embeddings == "none"
    assert model.config.source_vocabulary_size == 0
    for place, side in enumerate(("source", "target", "output")):
        rows = getattr(model, f"{side}_embedding").embeddings.numpy()[4:]
        before = base.target_embedding.embeddings.numpy()[4:]
        np.testing.assert_array_equal(rows, before + np.float32(place))
    del untied["lm_head.weight"]
    safetensors.numpy.save_file(arrays | untied, path)
    with pytest.raises(InputError, match="lm_head.weight"):
        read_hugging_face(folder)
