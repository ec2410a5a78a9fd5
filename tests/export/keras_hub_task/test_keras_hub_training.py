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


@pytest.fixture
def task(model_path):
    preprocessor = TransformerSeq2SeqLMPreprocessor(
        TransformerTokenizer(made_up_text.vocabulary()),
        encoder_sequence_length=12,
        decoder_sequence_length=10,
    )
    return TransformerSeq2SeqLM.from_preset(
        str(model_path), preprocessor=preprocessor
    )


def test_it_learns_from_strings_as_in_the_paper(task):
    """The loss in numpy: smoothed, and a mean over the target's tokens."""
    config = task.backbone.config
    rate = config.d_model**-0.5 * config.warmup_steps**-1.5
    assert float(task.optimizer.learning_rate) == pytest.approx(rate, rel=1e-5)
    task.compile(optimizer=keras.optimizers.Adam(0.01), run_eagerly=True)
    _, labels, _ = task.preprocessor(PAIRS)
    logits = task.predict(PAIRS, verbose=0)
    wanted = figures(logits, np.asarray(labels), config.label_smoothing)
    loss, accuracy = task.evaluate(PAIRS, batch_size=4, verbose=0)
    assert loss == pytest.approx(wanted.loss, rel=1e-5)
    assert accuracy == pytest.approx(wanted.accuracy, rel=1e-5)
    history = task.fit(PAIRS, batch_size=4, epochs=5, verbose=0).history
    assert history["loss"][-1] < history["loss"][0] - 0.5


def _adapt(task):
    """Enables LoRA, and changes weights as training would."""
    task.backbone.enable_lora(2)
    for weight in task.backbone.trainable_variables:
        if weight.name == "lora_kernel_b":
            weight.assign(weight + 1.0)


def test_lora_is_saved_in_presets_and_alone(task, model_path, tmp_path):
    inputs, _, _ = task.preprocessor(PAIRS)
    before = np.asarray(task(inputs))
    _adapt(task)
    names = [each.name for each in task.backbone.trainable_variables]
    assert names == ["lora_kernel_a", "lora_kernel_b"] * 4
    adapted = np.asarray(task(inputs))
    assert np.abs(adapted - before).max() > 0.1
    task.save_to_preset(str(tmp_path / "preset"))
    task.backbone.save_lora_weights(str(tmp_path / "some.lora.h5"))
    saved, other = (
        TransformerSeq2SeqLM.from_preset(
            str(path), preprocessor=task.preprocessor
        )
        for path in (tmp_path / "preset", model_path)
    )
    np.testing.assert_allclose(saved(inputs), adapted, atol=1e-4)
    other.backbone.load_lora_weights(str(tmp_path / "some.lora.h5"))
    np.testing.assert_allclose(other(inputs), adapted, atol=1e-6)


@pytest.mark.slow
def test_lora_learns_and_other_weights_stay(task):
    keras.utils.set_random_seed(2)
    frozen = task.backbone.get_weights()
    before = task.evaluate(PAIRS, batch_size=4, verbose=0)[0]
    task.backbone.enable_lora(2)
    task.compile(optimizer=keras.optimizers.Adam(0.03))
    task.fit(PAIRS, batch_size=4, epochs=30, verbose=0)
    assert task.evaluate(PAIRS, batch_size=4, verbose=0)[0] < before - 0.4
    weights = [
        each for each in task.backbone.weights if "lora" not in each.name
    ]
    for weight, value in zip(weights, frozen, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)


@pytest.mark.slow
def test_what_was_compiled_before_lora_is_not_used_again(task, tmp_path):
    before = task.generate(TEXTS)
    _adapt(task)
    texts = task.generate(TEXTS)
    assert texts != before
    task.save_to_preset(str(tmp_path / "preset"))
    saved = TransformerSeq2SeqLM.from_preset(str(tmp_path / "preset"))
    assert saved.generate(TEXTS) == texts
