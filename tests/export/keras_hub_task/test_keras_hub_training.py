"""KerasHub's task as it learns from pairs of strings."""

import keras
import numpy as np
import pytest

from export.keras_hub_task import (
    TransformerSeq2SeqLM,
    TransformerSeq2SeqLMPreprocessor,
    TransformerTokenizer,
)
from tests import made_up_text
from tests.trainers.helpers import figures

TEXTS = made_up_text.sentences()[:8]
PAIRS = {"encoder_text": TEXTS[:4], "decoder_text": TEXTS[4:]}
# Keras' and KerasHub's own, of every task.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*compile.. was not called"),
    pytest.mark.filterwarnings("ignore:.shuffle=True. was passed"),
    pytest.mark.filterwarnings("ignore:unclosed file.*vocabulary.spm"),
]


def fresh(model_path):
    preprocessor = TransformerSeq2SeqLMPreprocessor(
        TransformerTokenizer(made_up_text.vocabulary()),
        encoder_sequence_length=12,
        decoder_sequence_length=10,
    )
    return TransformerSeq2SeqLM.from_preset(
        str(model_path), preprocessor=preprocessor
    )


def test_its_loss_is_the_papers(model_path):
    """In numpy: smoothed, and a mean over the target's tokens."""
    task = fresh(model_path)
    task.compile(run_eagerly=True)
    _, labels, _ = task.preprocessor(PAIRS)
    logits = task.predict(PAIRS, verbose=0)
    smoothing = task.backbone.config.label_smoothing
    wanted = figures(logits, np.asarray(labels), smoothing)
    loss, accuracy = task.evaluate(PAIRS, batch_size=4, verbose=0)
    assert loss == pytest.approx(wanted.loss, rel=1e-5)
    assert accuracy == pytest.approx(wanted.accuracy, rel=1e-5)


def test_it_learns_from_strings_by_the_papers_schedule(model_path):
    task = fresh(model_path)
    config = task.backbone.config
    rate = config.d_model**-0.5 * config.warmup_steps**-1.5
    assert float(task.optimizer.learning_rate) == pytest.approx(rate, rel=1e-5)
    task.compile(optimizer=keras.optimizers.Adam(0.01), run_eagerly=True)
    history = task.fit(PAIRS, batch_size=4, epochs=5, verbose=0).history
    assert history["loss"][-1] < history["loss"][0] - 0.5


def test_lora_is_kept_by_presets_and_alone(model_path, tmp_path):
    task = fresh(model_path)
    inputs, _, _ = task.preprocessor(PAIRS)
    before = np.asarray(task(inputs))
    _change(task)
    learnt = [each.name for each in task.backbone.trainable_variables]
    assert learnt == ["lora_kernel_a", "lora_kernel_b"] * 4
    wanted = np.asarray(task(inputs))
    assert np.abs(wanted - before).max() > 0.1

    task.save_to_preset(str(tmp_path / "preset"))
    saved = TransformerSeq2SeqLM.from_preset(
        str(tmp_path / "preset"), preprocessor=task.preprocessor
    )
    np.testing.assert_allclose(saved(inputs), wanted, atol=1e-4)
    task.backbone.save_lora_weights(str(tmp_path / "some.lora.h5"))
    other = TransformerSeq2SeqLM.from_preset(
        str(model_path), preprocessor=task.preprocessor
    )
    other.backbone.load_lora_weights(str(tmp_path / "some.lora.h5"))
    np.testing.assert_allclose(other(inputs), wanted, atol=1e-6)


def _change(task):
    """Puts LoRA on, as if something had been learnt."""
    task.backbone.enable_lora(2)
    for weight in task.backbone.trainable_variables:
        if weight.name == "lora_kernel_b":
            weight.assign(weight + 1.0)


@pytest.mark.slow
def test_lora_learns_beside_frozen_weights(model_path):
    keras.utils.set_random_seed(2)
    task = fresh(model_path)
    frozen = task.backbone.get_weights()
    before = task.evaluate(PAIRS, batch_size=4, verbose=0)[0]
    task.backbone.enable_lora(2)
    task.compile(optimizer=keras.optimizers.Adam(0.03))
    task.fit(PAIRS, batch_size=4, epochs=30, verbose=0)
    assert task.evaluate(PAIRS, batch_size=4, verbose=0)[0] < before - 0.4
    kept = [
        each.numpy()
        for each in task.backbone.weights
        if "lora" not in each.name
    ]
    for one, other in zip(kept, frozen, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_search_before_lora_is_forgotten(model_path, tmp_path):
    """What was compiled without it would go on without it."""
    task = fresh(model_path)
    before = task.generate(TEXTS)
    _change(task)
    texts = task.generate(TEXTS)
    assert texts != before
    task.save_to_preset(str(tmp_path / "preset"))
    saved = TransformerSeq2SeqLM.from_preset(str(tmp_path / "preset"))
    assert saved.generate(TEXTS) == texts
