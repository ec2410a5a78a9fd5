"""KerasHub's task over a model directory of ours."""

import json
import re

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from export.common.errors import InputError
from export.keras_hub_task import (
    TransformerBackbone,
    TransformerSeq2SeqLM,
    TransformerTokenizer,
    TranslationSearch,
)
from export.loading import load_translator
from export.model_directory import ModelDirectory
from export.tokenizers.tokenizer import Tokenizer
from tests import made_up_text
from tests.export import commands, tiny
from tests.export.keras_hub_task import harness
from tests.trainers.helpers import figures

TEXTS = [*made_up_text.sentences()[:8], "", "  ", "bà ka."]
PAIRS = {"encoder_text": TEXTS[:4], "decoder_text": TEXTS[4:8]}
COMMAND = "export.keras_hub"
pytestmark = harness.IGNORED_WARNINGS


@pytest.fixture(scope="module")
def task(model_path):
    made = TransformerSeq2SeqLM.from_preset(str(model_path))
    made.preprocessor.encoder_sequence_length = 12
    made.preprocessor.decoder_sequence_length = 10
    return made


@pytest.fixture
def searching(task):
    """With its own search again, whatever a test before has set."""
    task.compile()
    return task


def test_it_translates_as_export_translate(searching, model_path, eager):
    translator = load_translator(model_path)
    expected = [each.text for each in translator.translate(TEXTS)]
    batches = tf.data.Dataset.from_tensor_slices(TEXTS).batch(7)
    for inputs in (TEXTS, np.array(TEXTS), batches):
        assert searching.generate(inputs) == expected
    for text in (TEXTS[0], TEXTS[0].encode()):
        assert searching.generate(text) == expected[0]


def test_search_settings_length_and_prefixes(searching, model_path, eager):
    search = {"beam_size": 2, "alpha": 1.5, "max_extra_tokens": 2}
    searching.compile(sampler=TranslationSearch(**search))
    given = {"encoder_text": TEXTS[:3], "decoder_text": ["ba", "", "ka do"]}
    found = load_translator(
        model_path, max_output_tokens=6, **search
    ).translate(TEXTS[:3], prefixes=given["decoder_text"])
    expected = [each.text for each in found]
    assert searching.generate(given, max_length=7) == expected
    stripped = searching.generate(given, max_length=7, strip_prompt=True)
    assert stripped[:2] == [expected[0].removeprefix("ba"), expected[1]]


def test_greedy_sampling_takes_the_likeliest_token(searching):
    """By whole-sequence logits, without a cache."""
    searching.compile(sampler="greedy", run_eagerly=True)
    texts = [TEXTS[0], TEXTS[1], "ba", " "]
    inputs = searching.preprocessor.generate_preprocess(
        {"encoder_text": texts, "decoder_text": ["", "ba ka", "", ""]}
    )
    found = searching.generate_step(inputs, [3])
    ids = np.asarray(found["decoder_token_ids"])
    given = np.asarray(inputs["decoder_padding_mask"]).sum(axis=1)
    assert given[1] > given[0] == 1
    source = np.asarray(inputs["encoder_token_ids"])
    logits = searching.backbone.transformer(
        {"source": source, "target": ids}
    ).numpy()
    logits[:, :, :3] = -np.inf
    logits[:, 0, 3] = -np.inf
    limits = (source > 3).sum(axis=1) + tiny.CONFIG["max_extra_tokens"]
    limits[3] = 1
    assert limits[2] < 9 < limits[1]
    limits = np.minimum(limits, 9)
    for row, start, scores, limit in zip(ids, given, logits, limits):
        wanted = scores[start - 1 : -1].argmax(axis=-1)
        wanted[max(limit - start, 0) :] = 3
        length = (wanted == 3).argmax() + 1 if 3 in wanted else len(wanted)
        assert row[start:][:length].tolist() == wanted[:length].tolist()
    lengths = np.asarray(found["decoder_padding_mask"]).sum(axis=1) - 1
    assert lengths.tolist() == [*limits[:3], 0]
    assert searching.generate(["", " "]) == ["", ""]


def test_samplers_stay_within_learned_positions(tmp_path, eager):
    """Fewer than the preprocessor's default, which the user never gave."""
    tiny.write(tmp_path, positions="learned", max_positions=20)
    task = TransformerSeq2SeqLM.from_preset(str(tmp_path))
    search = TranslationSearch(beam_size=1, stop_criterion="k_finished")
    found = []
    for sampler in ("greedy", search):
        task.compile(sampler=sampler, run_eagerly=True)
        found.append(task.generate(TEXTS[:2]))
    assert found[0] == found[1]
    task.compile(sampler="greedy", run_eagerly=True)
    with pytest.raises(ValueError, match="max_length must be at most 20"):
        task.generate(TEXTS[:2], max_length=30)
    task.preprocessor = None
    ids = np.array([[4, 200, 3]])
    inputs = {
        f"{side}_{name}": ids
        for side in ("encoder", "decoder")
        for name in ("token_ids", "padding_mask")
    }
    for each in (inputs, tf.data.Dataset.from_tensors(inputs)):
        with pytest.raises(ValueError, match="199, not 200"):
            task.generate(each)


def test_ids_are_the_models_own(task):
    found, labels, weights = task.preprocessor(PAIRS)
    encode = Tokenizer(made_up_text.vocabulary()).encode
    source, target = (
        np.asarray(found[f"{side}_token_ids"]).tolist()
        for side in ("encoder", "decoder")
    )
    for row, ids in zip(source, encode(TEXTS)):
        assert row == [*ids, *[0] * 12][:12]
    labels = np.asarray(labels).tolist()
    for row, label, ids in zip(target, labels, encode(TEXTS[4:8])):
        packed = [*[2, *ids[:-1]][:10], 3, *[0] * 12][:11]
        assert (row, label) == (packed[:10], packed[1:])
    assert (np.asarray(weights) == (np.asarray(labels) != 0)).all()


def test_a_preset_and_back_loses_nothing(task, model_path, tmp_path):
    preset = f"{tmp_path / 'preset'}"
    write = [COMMAND, f"--model_dir={model_path}", f"--preset={preset}"]
    printed, _ = commands.output_and_error(*write)
    assert f"TransformerSeq2SeqLM.from_preset('{preset}')" in printed
    loaded = keras_hub.models.Seq2SeqLM.from_preset(preset)
    assert isinstance(loaded, TransformerSeq2SeqLM)
    _, labels, _ = loaded.preprocessor(PAIRS)
    assert labels.shape[1] == 128
    np.testing.assert_array_equal(
        labels[:, :9], task.preprocessor(PAIRS)[1][:, :9]
    )
    _assert_same(loaded.get_weights(), task.get_weights())
    directory = ModelDirectory(tmp_path / "back")
    back = f"--model_dir={directory.path}"
    read = [COMMAND, back, f"--from_preset={preset}"]
    assert commands.output_and_error(*read)[1] is None
    for name in ("config.json", "vocabulary.model", "run.json"):
        assert (directory.path / name).read_bytes() == (
            (model_path / name).read_bytes()
        )
    weights = directory.load_model().get_weights()
    _assert_same(weights, task.backbone.transformer.get_weights())
    for flags in write, read:
        assert "exists" in commands.output_and_error(*flags)[1]
    assert "either --preset" in commands.output_and_error(*read[:2])[1]


def _assert_same(ones, others):
    for one, other in zip(ones, others, strict=True):
        np.testing.assert_array_equal(one, other)


def test_bad_arguments_are_refused(task):
    backbone = TransformerBackbone(**tiny.CONFIG | {"vocabulary_size": 150})
    enable_lora = task.backbone.enable_lora
    two = {"encoder_text": ["a", "b"], "decoder_text": ["c"]}
    task.compile()
    without_preprocessor = TransformerSeq2SeqLM(task.backbone, None)
    for name, call, *arguments in (
        ("200", TransformerSeq2SeqLM, backbone, task.preprocessor),
        ("'value'", enable_lora, 4, ["value"]),
        ("decoder_text", task.generate, two),
        ("encoder_text", task.generate, {"decoder_text": ["c"]}),
        ("SentencePiece", TransformerTokenizer, b"a few bytes"),
        ("got 3", task.generate, [3]),
        *(("max_length", task.generate, "ba", each) for each in (1, True)),
        ("decoder_token_ids", without_preprocessor.generate, {}, 9, None),
        ("stop_token_ids", task.generate, "ba", None, [4]),
        ("sampler", lambda: task.compile(sampler="contrastive")),
    ):
        with pytest.raises(ValueError, match=name):
            call(*arguments)
    assert task.backbone.trainable_variables
    for sampler in ("auto", "greedy"):
        task.compile(sampler=sampler)
        with pytest.raises(ValueError, match="utf-8"):
            task.generate(["ba", b"\xff"])
        assert task.generate([]) == []
    texts = tf.data.Dataset.from_tensors([b"\xff"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not UTF-8"):
        list(texts.map(task.preprocessor.tokenizer))


def test_bad_directories_and_presets_are_refused(model_path, tmp_path):
    path = tmp_path / "model"
    path.mkdir()
    for name in ("config.json", "vocabulary.model"):
        (path / name).write_bytes((model_path / name).read_bytes())
    with pytest.raises(InputError, match="weights.h5"):
        TransformerSeq2SeqLM.from_preset(str(path))
    fields = json.loads((path / "config.json").read_text())
    fields |= {"source_vocabulary_size": 200}
    (path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(InputError, match="source_vocabulary_size"):
        TransformerSeq2SeqLM.from_preset(str(path))
    flags = [f"--model_dir={tmp_path / 'n'}", f"--from_preset={tmp_path}"]
    assert "is not a preset" in commands.output_and_error(COMMAND, *flags)[1]
    assert not (tmp_path / "n").exists()


@pytest.fixture
def own_task(model_path):
    return TransformerSeq2SeqLM.from_preset(
        str(model_path), preprocessor=harness.preprocessor()
    )


def test_it_learns_from_strings_as_in_the_paper(own_task):
    """The loss in numpy: smoothed, and a mean over the target's tokens."""
    config = own_task.backbone.config
    rate = config.d_model**-0.5 * config.warmup_steps**-1.5
    assert float(own_task.optimizer.learning_rate) == pytest.approx(
        rate, rel=1e-5
    )
    own_task.compile(optimizer=keras.optimizers.Adam(0.01), run_eagerly=True)
    inputs, labels, _ = own_task.preprocessor(PAIRS)
    logits = own_task.predict(PAIRS, verbose=0)
    sides = {"source": "encoder_token_ids", "target": "decoder_token_ids"}
    ids = {side: np.asarray(inputs[name]) for side, name in sides.items()}
    expected = own_task.backbone.transformer(ids)
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    wanted = figures(logits, np.asarray(labels), config.label_smoothing)
    loss, accuracy = own_task.evaluate(PAIRS, batch_size=4, verbose=0)
    assert loss == pytest.approx(wanted.loss, rel=1e-5)
    assert accuracy == pytest.approx(wanted.accuracy, rel=1e-5)
    history = own_task.fit(PAIRS, batch_size=4, epochs=5, verbose=0).history
    assert history["loss"][-1] < history["loss"][0] - 0.5


def test_lora_is_saved_in_presets_and_alone(
    own_task, model_path, tmp_path, eager
):
    inputs, _, _ = own_task.preprocessor(PAIRS)
    before = np.asarray(own_task(inputs))
    texts = own_task.generate(TEXTS[:3])
    own_task.backbone.enable_lora(2)
    for weight in own_task.backbone.trainable_variables:
        if weight.name == "lora_kernel_b":
            weight.assign(weight + 1.0)
    own_task.compile()
    adapted_texts = own_task.generate(TEXTS[:3])
    assert adapted_texts != texts
    names = [each.name for each in own_task.backbone.trainable_variables]
    assert names == ["lora_kernel_a", "lora_kernel_b"] * 4
    adapted = np.asarray(own_task(inputs))
    assert np.abs(adapted - before).max() > 0.1
    own_task.save_to_preset(str(tmp_path / "preset"))
    own_task.backbone.save_lora_weights(str(tmp_path / "some.lora.h5"))
    saved, other = (
        TransformerSeq2SeqLM.from_preset(
            str(path), preprocessor=own_task.preprocessor
        )
        for path in (tmp_path / "preset", model_path)
    )
    np.testing.assert_allclose(saved(inputs), adapted, atol=1e-4)
    assert saved.generate(TEXTS[:3]) == adapted_texts
    other.backbone.load_lora_weights(str(tmp_path / "some.lora.h5"))
    np.testing.assert_allclose(other(inputs), adapted, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`")
def test_a_quantized_backbone_is_not_saved(own_task, tmp_path, eager):
    inputs, _, _ = own_task.preprocessor(PAIRS)
    before = np.asarray(own_task(inputs))
    own_task.backbone.quantize("int8")
    error = np.abs(np.asarray(own_task(inputs)) - before).mean()
    assert 0 < error < 0.1 * np.abs(before).mean()
    with pytest.raises(ValueError, match="save it before `quantize`"):
        own_task.save_to_preset(str(tmp_path / "preset"))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_keras_hubs_own_harness_passes(backend):
    pytest.importorskip(backend)
    printed = harness.run(
        *(backend, "pytest", "-W", "default", "-p", "no:cacheprovider"),
        *("-o", "addopts=--import-mode=importlib", harness.__file__),
    )
    assert re.search(r"\b7 passed", printed), printed


@pytest.mark.slow
def test_every_backend_has_the_same_answers_and_limits(model_path):
    pytest.importorskip("jax")
    arguments = harness.__name__, "calls", str(model_path)
    (others,) = json.loads(harness.run("jax", *arguments))
    answers = harness.answer_calls(str(model_path))
    for ours, other in zip(answers, others, strict=True):
        assert ours == other
    assert 0 < sum(isinstance(ours, dict) for ours in answers) < 12
