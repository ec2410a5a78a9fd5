"""Every field of transformers' files is obeyed, warned of or refused."""

import itertools
import json

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from export.common.errors import InputError
from export.pretrained import hugging_face_reader, m2m_reader
from export.pretrained.config_files import (
    ANY,
    HF_CONFIG_FIELDS,
    HF_GENERATION_FIELDS,
    HF_TOKENIZER_FIELDS,
    IGNORED,
    validate_fields,
)
from export.pretrained.hugging_face_reader import read_hugging_face
from export.tokenizers.pretrained_tokenizers import load_tokenizer
from tests.export.pretrained.conftest import Recorded
from tests.export.pretrained.test_hugging_face import assert_same_weights

# Fields of GenerationConfig, and of MarianConfig, of transformers 5.24.
GENERATION = """
max_length max_new_tokens min_length min_new_tokens early_stopping max_time
stop_strings do_sample num_beams use_mtp use_cache cache_implementation
cache_config max_cache_len temperature top_k top_p min_p top_h typical_p
epsilon_cutoff eta_cutoff repetition_penalty encoder_repetition_penalty
length_penalty no_repeat_ngram_size bad_words_ids renormalize_logits
forced_bos_token_id forced_eos_token_id remove_invalid_values
exponential_decay_length_penalty suppress_tokens begin_suppress_tokens
sequence_bias token_healing guidance_scale watermarking_config
num_return_sequences output_attentions output_hidden_states output_scores
output_logits return_dict_in_generate pad_token_id bos_token_id eos_token_id
encoder_no_repeat_ngram_size decoder_start_token_id is_assistant
num_assistant_tokens num_assistant_tokens_schedule
assistant_confidence_threshold prompt_lookup_num_tokens max_matching_ngram_size
assistant_early_exit assistant_lookbehind target_lookbehind
assistant_ensemble_weight speculation_type compile_config disable_compile
continuous_batching_config low_memory penalty_alpha dola_layers
diversity_penalty num_beam_groups constraints force_words_ids
prefill_chunk_size _from_model_config transformers_version
"""
MARIAN = """
transformers_version architectures output_hidden_states return_dict dtype
chunk_size_feed_forward is_encoder_decoder id2label label2id problem_type
vocab_size decoder_vocab_size max_position_embeddings encoder_layers
encoder_ffn_dim encoder_attention_heads decoder_layers decoder_ffn_dim
decoder_attention_heads encoder_layerdrop decoder_layerdrop use_cache
activation_function d_model dropout attention_dropout activation_dropout
init_std decoder_start_token_id scale_embedding pad_token_id eos_token_id
bos_token_id forced_eos_token_id share_encoder_decoder_embeddings is_decoder
tie_word_embeddings _name_or_path model_type output_attentions
"""
# The tables of a MarianTokenizer's files have its fields, and older ones.
FILES = {
    "config.json": HF_CONFIG_FIELDS,
    "generation_config.json": HF_GENERATION_FIELDS,
    "tokenizer_config.json": HF_TOKENIZER_FIELDS,
    # Other fields have a meaning in the file before.
    "special_tokens_map.json": {
        name: HF_TOKENIZER_FIELDS[name]
        for name in HF_TOKENIZER_FIELDS
        if name.endswith(("_token", "_tokens"))
    },
    "added_tokens.json": {"odd": ANY},
}
ODD = (7, 0.5, "odd", [5], [[5, 6]], {"odd": 1})
IDS = {"pad_token_id": 79, "eos_token_id": 0, "decoder_start_token_id": 79}


def change(folder, name, **changes):
    path = folder / name
    fields = json.loads(path.read_text("utf-8")) if path.exists() else {}
    path.write_text(json.dumps(fields | changes), "utf-8")


def test_every_field_of_transformers_has_a_verdict():
    assert {*GENERATION.split()} <= HF_GENERATION_FIELDS.keys()
    for fields in (HF_CONFIG_FIELDS, m2m_reader._CONFIG_FIELDS):
        assert {*MARIAN.split()} <= fields.keys()


@pytest.mark.parametrize("folder", ["separate"], indirect=True)
def test_no_field_of_a_file_is_ignored(folder, monkeypatch):
    """Others than those that the tables call so."""
    # The configuration takes the place of a model, which takes time to build.
    monkeypatch.setattr(
        hugging_face_reader, "load_transformer", lambda config, *others: config
    )
    monkeypatch.setattr(
        hugging_face_reader, "set_embeddings", lambda *others: None
    )

    def read():
        try:
            pretrained = read_hugging_face(folder)
        except InputError as error:
            return str(error)
        return *pretrained, read_biases[-1]

    read_biases = []
    read_bias = hugging_face_reader.read_bias

    def record_bias(*arguments):
        bias, warnings = read_bias(*arguments)
        read_biases.append(bias.tolist())
        return bias, warnings

    monkeypatch.setattr(hugging_face_reader, "read_bias", record_bias)
    base = read()
    for file, table in FILES.items():
        path = folder / file
        before = path.read_bytes() if path.exists() else b"{}"
        ignored = {name for name in table if table[name] is IGNORED}
        for value in ODD[::4]:
            change(folder, file, **dict.fromkeys(ignored, value))
            assert read() == base, (file, value)
            path.write_bytes(before)
        for name in [*table.keys() - ignored, "made_up"]:
            stored = json.loads(before).get(name)
            switched = [not stored] if type(stored) is bool else []
            # Not read, as there is a generation_config.json with all ids.
            is_search = name in HF_GENERATION_FIELDS and file == "config.json"
            if is_search or name == "bos_token_id":
                continue
            for value in (*ODD, *switched):
                change(folder, file, **{name: value})
                result = read()
                case = file, name, value
                assert result != base, case
                if isinstance(result, str):
                    assert "\n" not in result, case
                    is_named = name in result and file in result
                    # Or it does not fit the vocab, or the weights.
                    others = "vocab_size", "added tokens", "safetensors"
                    assert is_named or any(each in result for each in others)
            path.write_bytes(before)


def load_arrays(folder):
    return safetensors.numpy.load_file(folder / "model.safetensors")


def read_with(folder, arrays):
    """Returns the import of a directory with other arrays."""
    safetensors.numpy.save_file(arrays, folder / "model.safetensors")
    return read_hugging_face(folder)


def test_null_is_the_default_of_transformers(folder):
    names = ("num_beams", "length_penalty", "early_stopping")
    change(folder, "generation_config.json", **dict.fromkeys(names))
    # Not read, as there is a generation_config.json.
    change(folder, "config.json", num_beams=3, length_penalty=2.0)
    config = read_hugging_face(folder).model.config
    assert (config.beam_size, config.alpha) == (1, 1.0)
    assert config.stop_criterion == "heuristic"
    (folder / "generation_config.json").unlink()
    pretrained = read_hugging_face(folder)
    config = pretrained.model.config
    assert (config.beam_size, config.alpha) == (3, 2.0)
    # `generate` ends after 20 tokens by default.
    assert config.max_extra_tokens == 20
    assert "after 20 tokens" in "".join(pretrained.warnings)
    file = "generation_config.json"
    # Where no other id begins an output, it is that of the beginning.
    ids = {"bos_token_id": 79, "eos_token_id": 0, "length_penalty": -1}
    change(folder, file, **ids)
    assert read_hugging_face(folder).model.config.alpha == -1.0
    change(folder, file, length_penalty=-2)
    with pytest.raises(InputError, match=f"{file}: .* -1 .*length_penalty"):
        read_hugging_face(folder)
    (folder / file).unlink()
    change(folder, "config.json", scale_embedding=None)
    with pytest.raises(InputError, match="scale_embedding"):
        read_hugging_face(folder)


def test_the_fields_of_published_directories_are_known():
    """As transformers 3 and 4 wrote them for OPUS-MT's models."""
    off = "add_bias_logits add_final_layer_norm normalize_before do_sample"
    config = {
        **dict.fromkeys(off.split(), False),
        **{"_name_or_path": "opus", "num_beams": 6, "bad_words_ids": [[79]]},
        **{"static_position_embeddings": True, "extra_pos_embeddings": 80},
    }
    tokenizer = {
        **{"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
        **{"sp_model_kwargs": {}, "model_max_length": 512},
    }
    assert validate_fields(config, HF_CONFIG_FIELDS, "config.json") == []
    file = "tokenizer_config.json"
    assert validate_fields(tokenizer, HF_TOKENIZER_FIELDS, file) == []


def test_suppressed_tokens_have_no_share_of_the_softmax(folder):
    for renormalize in (False, True):
        change(
            *(folder, "generation_config.json"),
            suppress_tokens=[1, 7, 9],
            bad_words_ids=[[79], [0], [5]],
            renormalize_logits=renormalize,
        )
        pretrained = read_hugging_face(folder)
        # The unknown piece and the begin are never generated anyhow.
        expected = [-1, 5, 7, 9, *([1, 79] if renormalize else [])]
        bias = pretrained.model.output_embedding.bias.numpy()
        their_ids = Recorded(folder, pretrained, None, []).their_ids("target")
        assert sorted(their_ids[bias == -1e9]) == sorted(expected)
        assert bool(pretrained.warnings) != renormalize


SHARDS = "a.safetensors", "b.safetensors"
INDEX = "model.safetensors.index.json"


def write_shards(folder, arrays):
    (folder / "model.safetensors").unlink()
    weight_map = {}
    for place, file in enumerate(SHARDS):
        names = sorted(arrays)[place::2]
        part = {name: arrays[name] for name in names}
        safetensors.numpy.save_file(part, folder / file)
        weight_map |= dict.fromkeys(names, file)
    change(folder, INDEX, weight_map=weight_map)


def test_dtypes_and_shards_are_read_exactly(folder):
    base = read_hugging_face(folder).model
    stored = load_arrays(folder)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        arrays = {name: each.astype(dtype) for name, each in stored.items()}
        model = read_with(folder, arrays).model
        if dtype is not np.float16:
            write_shards(folder, arrays)
            model = read_hugging_face(folder).model
        for one, other in zip(base.weights, model.weights, strict=True):
            value = one.numpy()
            # Our padding has no row in the file.
            rounded = np.clip(value, -1e3, 1e3).astype(dtype).astype("float32")
            expected = np.where(value == -1e9, value, rounded)
            np.testing.assert_array_equal(other, expected)

    base = json.loads((folder / INDEX).read_text())["weight_map"]
    for weight_map in (
        {"a": "../model.safetensors"},
        {"a": INDEX},
        base | {"a": SHARDS[0]},
        {"a": "none.safetensors"},
        {"a": 3},
        [],
    ):
        change(folder, INDEX, weight_map=weight_map)
        with pytest.raises(InputError):
            read_hugging_face(folder)


def test_positions_are_sinusoids_of_one_kind(folder):
    base, arrays = read_hugging_face(folder), load_arrays(folder)
    tables = {}
    for rates, steps in (("paper", 8), ("marian", 7)):
        angles = np.arange(9)[:, None] * 10000.0 ** (-np.arange(8) / steps)
        table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        tables[rates] = table.astype("float32")
    tables["odd"] = np.zeros((9, 16), np.float32)
    for one, other in itertools.product(tables, tables):
        changed = arrays | {
            "model.encoder.embed_positions.weight": tables[one],
            "model.decoder.embed_positions.weight": tables[other],
        }
        if one == other != "odd":
            config = read_with(folder, changed).model.config
            assert config == base.model.config.replace(sinusoid_rates=one)
        else:
            with pytest.raises(InputError, match="embed_positions"):
                read_with(folder, changed)


def test_added_tokens_and_padded_rows_are_read(folder):
    """As `resize_token_embeddings(82, pad_to_multiple_of=8)` leaves them."""
    texts = ["ka lo mi.", ">>fra<< vize bo"]
    base, arrays = read_hugging_face(folder), load_arrays(folder)
    ids = load_tokenizer(base.vocabulary).source.encode(texts)
    generator = np.random.default_rng(1)
    more = generator.normal(size=(8, 16)).astype("float32")
    table = np.concatenate([arrays["model.shared.weight"], more])
    arrays["model.shared.weight"] = table
    change(folder, "config.json", vocab_size=88, decoder_vocab_size=88)
    change(folder, "added_tokens.json", **{"<ent>": 80, ">>gos<<": 81})
    token = {"content": "<ent>", "special": False, "lstrip": False}
    changes = {"added_tokens_decoder": {"80": token}}
    changes["eos_token"] = {"content": "</s>", "__type": "AddedToken"}
    change(folder, "tokenizer_config.json", **changes)
    stored_bias = arrays["final_logits_bias"]
    # Padding the embeddings may pad the bias, or not.
    for extra in (0, 2, 8):
        more_bias = generator.normal(size=(1, extra)).astype("float32")
        bias = np.concatenate([stored_bias, more_bias], axis=1)
        pretrained = read_with(folder, arrays | {"final_logits_bias": bias})
        warnings = "".join(pretrained.warnings)
        assert "such as <ent>" in warnings and "no piece of 6 of" in warnings
        tokenizer = load_tokenizer(pretrained.vocabulary)
        for one, other in zip(ids, tokenizer.source.encode(texts)):
            np.testing.assert_array_equal(one, other)
        ((tag, *_),) = tokenizer.source.encode([">>gos<< ka"])
        # Behind padding are <unk>, <pad> and </s>, and then their 80 and 81.
        assert tag == 82
        embeddings = pretrained.model.target_embedding.embeddings.numpy()
        np.testing.assert_array_equal(
            np.sort(embeddings[81:], axis=1), np.sort(table[80:], axis=1)
        )
        biases = pretrained.model.output_embedding.bias.numpy()[81:]
        np.testing.assert_array_equal(biases[:extra], more_bias[0])
        assert not biases[extra:].any()


def test_names_of_tied_and_untied_matrices(folder):
    base, arrays = read_hugging_face(folder).model, load_arrays(folder)
    matrix = arrays.pop("model.shared.weight")
    names = [
        "model.encoder.embed_tokens.weight",
        "model.decoder.embed_tokens.weight",
        "lm_head.weight",
        "model.shared.weight",
    ]
    for name in names:
        model = read_with(folder, arrays | {name: matrix}).model
        assert_same_weights(base, model)
    differing = {names[0]: matrix, names[1]: matrix + 1}
    with pytest.raises(InputError, match="embed_tokens"):
        read_with(folder, arrays | differing)
    # In transformers 5 nothing is tied then, and the shared one is not used.
    change(folder, "config.json", tie_word_embeddings=False)
    untied = {name: matrix + place for place, name in enumerate(names)}
    model = read_with(folder, arrays | untied).model
    assert model.config.share_embeddings == "none"
    assert model.config.source_vocabulary_size == 0
    for place, side in enumerate(("source", "target", "output")):
        rows = getattr(model, f"{side}_embedding").embeddings.numpy()[4:]
        before = base.target_embedding.embeddings.numpy()[4:]
        np.testing.assert_array_equal(rows, before + np.float32(place))
    del untied["lm_head.weight"]
    with pytest.raises(InputError, match="lm_head.weight"):
        read_with(folder, arrays | untied)
