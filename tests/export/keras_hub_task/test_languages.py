"""KerasHub's task with a vocabulary for each side, and tags of languages."""

import json
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from export.common.errors import InputError
from export.keras_hub_task import (
    TransformerBackbone,
    TransformerSeq2SeqLM,
    TransformerSeq2SeqLMPreprocessor,
    TransformerTokenizer,
    TranslationSearch,
)
from export.keras_hub_task.search import FixedShapeBackend
from export.loading import load_translator
from export.model_directory import ModelDirectory
from export.tokenizers.pretrained_tokenizers import load_tokenizer
from export.translators.batches import pad_ids
from export.translators.translator import Translator
from tests.export import commands, tiny
from tests.export.keras_hub_task import harness
from tests.export.keras_hub_task.several_languages import (
    LANGUAGES,
    PREFIXES,
    TEXTS,
    tags,
    vocabulary,
    write_model,
)
from tests.trainers.helpers import figures
from trainers.data.codecs import TextCodec
from trainers.data.prepared_corpus import VOCABULARY_FILE
from trainers.data.tokenization import _encode

pytestmark = harness.IGNORED_WARNINGS
PAIRS = {"encoder_text": TEXTS[:2], "decoder_text": ["ka, do", "lo mi."]}


@pytest.fixture(scope="module", params=LANGUAGES)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def path(kind, tmp_path_factory, m2m_folder):
    return write_model(tmp_path_factory.mktemp(kind) / "m", kind, m2m_folder)


@pytest.fixture(scope="module")
def made(path):
    return TransformerSeq2SeqLM.from_preset(path)


@pytest.fixture
def task(made, kind):
    """With its own search and languages again, untraced."""
    made.compile(run_eagerly=True)
    made.preprocessor.source_language = LANGUAGES[kind][0]
    made.preprocessor.target_language = LANGUAGES[kind][1]
    made.preprocessor.encoder_sequence_length = 20
    made.preprocessor.decoder_sequence_length = 10
    return made


def for_kinds(*kinds):
    return pytest.mark.parametrize("kind", kinds, indirect=True)


def test_it_translates_as_export_translate(task, path, kind, eager):
    """Into its own language and that of tags, which have precedence."""
    others = LANGUAGES[kind][2:]
    texts = [*TEXTS, *(tags(*others) + each for each in TEXTS)]
    prefixes = ["" for _ in TEXTS] + PREFIXES
    translator = load_translator(path, max_output_tokens=6)
    # That of JAX.
    backend = FixedShapeBackend(
        task.make_generate_function(),
        task.preprocessor.tokenizer,
        task.backbone.config,
        6,
    )
    fixed = Translator(backend, translator.languages)
    found = task.generate({"encoder_text": texts, "decoder_text": prefixes}, 7)
    for each in (translator, fixed):
        translations = each.translate(texts, prefixes=prefixes)
        assert found == [translation.text for translation in translations]
    task.preprocessor.source_language = others[0]
    task.preprocessor.target_language = others[1]
    (other,) = translator.for_languages(*others).translate(TEXTS[:1])
    assert task.generate(TEXTS[0], 7) == other.text != found[0]


@for_kinds("mixture", "both")
def test_samplers_keep_languages_lengths_and_prefixes(task, kind, eager):
    """Greedy sampling is our own search with one beam."""
    search = TranslationSearch(beam_size=1, stop_criterion="k_finished")
    found = []
    given = {"encoder_text": TEXTS, "decoder_text": PREFIXES}
    for sampler in ("greedy", search):
        task.compile(sampler=sampler, run_eagerly=True)
        found.append([task.generate(TEXTS, 4), task.generate(given, 8)])
    assert found[0] == found[1]
    for sampler in ("top_k", "beam"):
        task.compile(sampler=sampler, run_eagerly=True)
        texts = task.generate(given, 7)
        assert texts[0].startswith("ba a") and not texts[2]
        assert not any(">>" in text for text in texts)


def test_it_trains_on_the_ids_of_trainers(task, path, kind):
    directory = ModelDirectory(path)
    codec = TextCodec({VOCABULARY_FILE: directory.read_vocabulary()})
    settings = types.SimpleNamespace(
        codec=codec, model_languages=codec.languages(*LANGUAGES[kind][:2])
    )
    pairs = _encode(settings, [*zip(*PAIRS.values(), strict=True)])
    source, labels = map(pad_ids, zip(*pairs))
    target = np.pad(labels[:, :-1], [[0, 0], [1, 0]], constant_values=2)
    model = directory.load_model()
    logits = np.asarray(model({"source": source, "target": target}))
    # It has TensorFlow forget the tables of tokenizers.
    keras.utils.set_random_seed(1)
    inputs, found_labels, _ = task.preprocessor(PAIRS)
    width = labels.shape[1]
    assert (np.asarray(found_labels)[:, :width] == labels).all()
    np.testing.assert_allclose(
        np.asarray(task(inputs))[:, :width][labels != 0],
        logits[labels != 0],
        rtol=1e-5,
        atol=1e-4,
    )
    # Excluded ids count as -100.
    logits = np.where(logits < -1e8, -100, logits)
    wanted = figures(logits, labels, model.config.label_smoothing)
    loss, _ = task.evaluate(PAIRS, batch_size=2, verbose=0)
    assert loss == pytest.approx(wanted.loss, rel=1e-5)
    one = {name: texts[0] for name, texts in PAIRS.items()}
    for name, row in task.preprocessor(one)[0].items():
        assert (np.asarray(row) == np.asarray(inputs[name])[0]).all()


@for_kinds("nllb")
def test_an_adapted_preset_and_back_loses_nothing(kind, path, tmp_path):
    source, target = LANGUAGES[kind][2:]
    task = TransformerSeq2SeqLM.from_preset(
        path, source_language=source, target_language=target
    )
    task.preprocessor.encoder_sequence_length = 20
    task.preprocessor.decoder_sequence_length = 10
    keras.utils.set_random_seed(1)
    task.backbone.enable_lora(2)
    task.compile(optimizer=keras.optimizers.Adam(0.01), run_eagerly=True)
    before, _ = task.evaluate(PAIRS, verbose=0)
    task.fit(PAIRS, batch_size=2, epochs=3, verbose=0)
    assert task.evaluate(PAIRS, verbose=0)[0] < before - 0.01
    preset, back = tmp_path / "preset", ModelDirectory(tmp_path / "back")
    task.save_to_preset(str(preset))
    flags = f"--from_preset={preset}", f"--model_dir={back.path}"
    assert commands.output_and_error("export.keras_hub", *flags)[1] is None
    assert back.read_languages() == (source, target)
    original = ModelDirectory(path)
    assert back.read_config() == original.read_config()
    assert back.read_vocabulary() == original.read_vocabulary()
    inputs, _, _ = task.preprocessor(PAIRS)
    loaded = TransformerSeq2SeqLM.from_preset(str(back.path))
    assert loaded.preprocessor.languages == task.preprocessor.languages
    np.testing.assert_allclose(loaded(inputs), task(inputs), rtol=1e-4)
    with pytest.raises(InputError, match="lacks the language xyz"):
        TransformerSeq2SeqLM.from_preset(str(preset), target_language="xyz")


@for_kinds("mixture", "both")
def test_texts_need_a_language(task, kind):
    preprocessor = task.preprocessor
    target = LANGUAGES[kind][1]
    expected, *_ = preprocessor(PAIRS)
    tagged = [f">>{target}<<{each}" for each in TEXTS[:2]]
    named = PAIRS | {"encoder_text": [f">>{target}<<>>None<< ba"] * 2}
    tagged = PAIRS | {"encoder_text": tagged}
    preprocessor.target_language = None
    with pytest.raises(InputError, match="target_language, such as"):
        task.generate(["ba"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="lacks a tag"):
        preprocessor(PAIRS)
    (mapped,) = tf.data.Dataset.from_tensors(tagged).map(preprocessor)
    for found in (mapped, preprocessor(tagged)):
        for name, ids in expected.items():
            assert (np.asarray(found[0][name]) == np.asarray(ids)).all()
    # A tag that is text.
    assert np.asarray(preprocessor(named)[0]["encoder_padding_mask"]).any()
    blank = preprocessor.generate_preprocess(" ")
    assert np.asarray(blank["decoder_padding_mask"]).sum() == 1
    preprocessor.target_language = "xyz"
    for call in (task.generate, preprocessor.generate_preprocess):
        with pytest.raises(InputError, match="lacks the language xyz"):
            call(["ba"])


@for_kinds("opus", "nllb")
def test_the_tokenizer_is_the_targets(task, path, kind):
    proto = ModelDirectory(path).read_vocabulary()
    tokenizer, target = task.preprocessor.tokenizer, load_tokenizer(proto)
    target = target.target
    (ids,) = target.encode(["ba ka 語, lo</s>"])
    assert tokenizer("ba ka 語, lo</s>").numpy().tolist() == [*ids[:-1]]
    assert tokenizer.detokenize([[*map(int, ids)]]) == target.decode([ids])
    names = tokenizer.get_vocabulary()
    assert tokenizer.vocabulary_size() == len(names)
    assert len(names) == task.backbone.config.vocabulary_size
    assert names == [target.id_to_token(i) for i in range(len(names))]
    assert [tokenizer.token_to_id(each) for each in names] == [
        *range(len(names))
    ]
    options = {"add_bos": True, "add_eos": True, "dtype": "string"}
    (pieces,) = TransformerTokenizer(proto, **options)(["ba"])
    assert pieces == ["<s>", *(names[i] for i in target.encode(["ba"])[0])]


def test_another_vocabulary_is_refused():
    tokenizer = TransformerTokenizer(vocabulary("opus"))
    preprocessor = TransformerSeq2SeqLMPreprocessor(tokenizer)
    with pytest.raises(ValueError, match="150, 200"):
        TransformerSeq2SeqLM(TransformerBackbone(**tiny.CONFIG), preprocessor)


@pytest.mark.slow
def test_jax_has_the_same_answers(tmp_path, m2m_folder):
    pytest.importorskip("jax")
    paths = [
        write_model(tmp_path / kind, kind, m2m_folder) for kind in LANGUAGES
    ]
    arguments = harness.__name__, "languages", *paths
    others = json.loads(harness.run("jax", *arguments))
    for path, other in zip(paths, others, strict=True):
        assert harness.answer_languages(path) == other
