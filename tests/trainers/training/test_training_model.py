"""The training step on one device; several are in test_replicas."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.trainers import helpers
from tests.trainers.helpers import (
    batches_of,
    figures,
    largest_difference,
    made_up_pairs,
    minute_model,
    plan_of,
    weights_of,
)
from trainers.batches import input_pipeline
from trainers.batches.batch_plan import Batch, BatchShape
from trainers.batches.token_pairs import make_batch

# Not the paper's, which is the default.
SMOOTHING = 0.4
PAIRS = made_up_pairs(45, seed=4)
NAMES = ("loss", "perplexity", "accuracy")


@pytest.fixture(autouse=True)
def _eager():
    """Tracing would take seconds; tests that need graphs switch it off."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def _batches(count):
    batches = plan_of(PAIRS).from_step(0)
    return [
        make_batch(PAIRS, batch) for batch in itertools.islice(batches, count)
    ]


def _logits(model, inputs):
    return model(inputs, training=False).numpy()


def _train_step(model, batch):
    return model.train_step(batch, tf.zeros(2))


def _change(model, batch):
    """What one step of SGD with rate 1 takes from the weights."""
    before = weights_of(model)
    _train_step(model, batch)
    return [a - b for a, b in zip(before, weights_of(model))]


def _gradient(model, batch):
    """Of the mean over target tokens, written with one-hot labels."""
    smoothing = model.config.label_smoothing
    inputs, labels = batch
    size = model.config.vocabulary_size
    wanted = np.full((*labels.shape, size), smoothing / (size - 1), np.float32)
    np.put_along_axis(wanted, labels[..., None], 1 - smoothing, axis=-1)
    wanted *= (labels != 0)[..., None]
    with tf.GradientTape() as tape:
        logits = model(inputs, training=False)
        loss = -tf.reduce_sum(wanted * tf.nn.log_softmax(logits))
        loss = loss / (labels != 0).sum()
    gradients = tape.gradient(loss, model.trainable_variables)
    return [tf.convert_to_tensor(each).numpy() for each in gradients]


def _norm(arrays):
    return np.sqrt(sum(np.square(np.float64(each)).sum() for each in arrays))


def _with_sgd(**changes):
    model = minute_model(**changes)
    model.compile(optimizer=keras.optimizers.SGD(1.0), jit_compile=False)
    return model


def test_a_step_reports_and_follows_the_mean_over_tokens():
    model = _with_sgd(label_smoothing=SMOOTHING)
    for batch in _batches(2):
        expected = figures(_logits(model, batch[0]), batch[1], SMOOTHING)
        gradient = _gradient(model, batch)
        before = weights_of(model)
        logs = _train_step(model, batch)
        for name in (*NAMES, "tokens"):
            value = getattr(expected, name)
            assert float(logs[name]) == pytest.approx(value, rel=1e-5)
        change = [a - b for a, b in zip(before, weights_of(model))]
        assert largest_difference(change, gradient) <= 1e-6


def test_dev_weighs_every_token_of_uneven_batches_alike():
    tf.config.run_functions_eagerly(False)
    model = minute_model(label_smoothing=SMOOTHING)
    pairs = made_up_pairs(21, seed=5)
    batches = batches_of(pairs)
    assert batches.batches_per_epoch >= 3
    dev = model.evaluate(
        input_pipeline.evaluation_data(model.distribute_strategy, batches),
        steps=batches.batches_per_epoch,
    )
    every = np.arange(len(pairs))
    inputs, labels = make_batch(
        pairs, Batch(every, every, BatchShape(24, 9, 9))
    )
    expected = figures(_logits(model, inputs), labels, SMOOTHING)
    assert set(dev) == set(NAMES)
    for name in NAMES:
        assert dev[name] == pytest.approx(getattr(expected, name), rel=1e-5)


def test_compiled_and_plain_gradients_are_the_same():
    inputs, labels = _batches(1)[0]
    results = []
    for compiled in (False, True):
        tf.config.run_functions_eagerly(not compiled)
        model = minute_model(compile_gradient=compiled, label_smoothing=0.4)
        sums, gradients = model._gradient(
            inputs, labels, tf.constant(7.0), tf.constant(0)
        )
        results.append([*map(sums.get, NAMES), *gradients])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("share", ["target-softmax", "none"])
def test_the_same_with_an_output_bias_and_a_source_vocabulary(share):
    model = _with_sgd(
        share_embeddings=share,
        output_bias=True,
        source_vocabulary_size=17,
        num_layers=2,
        num_decoder_layers=1,
        label_smoothing=SMOOTHING,
    )
    bias = model.output_embedding.bias
    bias.assign(np.linspace(-2, 2, bias.shape[0]))
    inputs, labels = _batches(1)[0]
    source = inputs["source"]
    # Ids that the target's vocabulary has not.
    source = np.where(source > 8, source + 4, source)
    assert source.max() >= 13
    batch = inputs | {"source": source}, labels
    wanted = figures(_logits(model, batch[0]), labels, SMOOTHING)
    expected = _gradient(model, batch)
    assert max(abs(each).max() for each in expected if each.ndim == 1) > 1e-3
    measured = float(model.test_step(batch)["loss"])
    assert measured == pytest.approx(wanted.loss, rel=1e-5)
    assert largest_difference(_change(model, batch), expected) <= 1e-6


@pytest.mark.parametrize("factor", [0.3, 2.0])
def test_clipping_is_by_the_global_norm(factor):
    batch = _batches(1)[0]
    gradient = _gradient(_with_sgd(), batch)
    norm = _norm(gradient)
    model = _with_sgd(clip_norm=float(factor * norm))
    expected = [min(factor, 1) * each for each in gradient]
    assert largest_difference(_change(model, batch), expected) <= 1e-6


@pytest.mark.parametrize("changes", [{}, {"dropout": 0.1, "r_drop": 5.0}])
def test_a_replica_with_nothing_but_padding_adds_nothing(changes):
    # Keras takes no maximum of an empty tensor outside a graph.
    tf.config.run_functions_eagerly(False)
    inputs, labels = _batches(1)[0]
    nothing = {name: np.zeros_like(ids) for name, ids in inputs.items()}
    sums, gradients = minute_model(**changes)._gradient(
        nothing, np.zeros_like(labels), tf.constant(7.0), tf.constant(1)
    )
    assert {name: float(each) for name, each in sums.items()} == dict.fromkeys(
        NAMES, 0.0
    )
    assert not any(gradient.numpy().any() for gradient in gradients)


def test_dropout_is_drawn_anew_in_training_and_off_in_measuring():
    model = minute_model(dropout=0.5)
    model.compile(optimizer=keras.optimizers.SGD(0.0), jit_compile=False)
    batch = _batches(1)[0]
    trained = {float(_train_step(model, batch)["loss"]) for _ in range(4)}
    assert len(trained) == 4
    measured = float(model.test_step(batch)["loss"])
    smoothing = model.config.label_smoothing
    wanted = figures(_logits(model, batch[0]), batch[1], smoothing)
    assert measured == pytest.approx(wanted.loss, rel=1e-5)


def _r_drop(model, batch, alpha):
    """Loss and its gradient by the formula of Liang et al. 2021, halved."""
    inputs, labels = batch
    real = (labels != 0)[..., None].astype("float32")
    with model.seeds.for_replica(tf.constant(0)), tf.GradientTape() as tape:
        logits = [model(inputs, training=True) for _ in range(2)]
        p, q = map(tf.nn.softmax, logits)
        ratios = real * tf.math.log(p / q)
        divergence = tf.reduce_sum(p * ratios) - tf.reduce_sum(q * ratios)
        # A mean over tokens of its own: `kt` is tested in test_loss.
        loss = sum(model.token_loss(labels, each) for each in logits) / 2
        loss += alpha / 2 * divergence / 2 / real.sum()
    gradients = tape.gradient(loss, model.trainable_variables)
    return float(loss), [tf.convert_to_tensor(each) for each in gradients]


def test_r_drop_pulls_two_passes_together():
    alpha, changes = 5.0, {"dropout": 0.3, "attention_dropout": 0.2}
    changes |= {"output_bias": True}
    batch = _batches(1)[0]
    loss, expected = _r_drop(_with_sgd(**changes, r_drop=alpha), batch, alpha)
    model = _with_sgd(**changes, r_drop=alpha)
    # Dev has no penalty.
    dev = float(model.test_step(batch)["loss"])
    plain = _with_sgd(**changes)
    assert dev == float(plain.test_step(batch)["loss"])
    before = weights_of(model)
    logs = {n: float(each) for n, each in _train_step(model, batch).items()}
    assert logs["loss"] == pytest.approx(loss, rel=1e-5)
    change = [a - b for a, b in zip(before, weights_of(model))]
    of_trainable = [
        part for part, weight in zip(change, model.weights) if weight.trainable
    ]
    assert largest_difference(of_trainable, expected) <= 1e-6
    # The penalty is no small part of it.
    assert float(_train_step(plain, batch)["loss"]) < 0.98 * loss


def test_adam_is_that_of_the_configuration():
    changes = {"adam_beta_1": 0.7, "adam_beta_2": 0.8, "adam_epsilon": 1e-5}
    adam = minute_model(**changes).optimizer
    assert (adam.beta_1, adam.beta_2, adam.epsilon) == (0.7, 0.8, 1e-5)


def test_micro_batches_draw_dropout_of_their_own():
    """The same rows four times, without a rate: four losses in one sum."""
    pairs = helpers.token_pairs(4 * [[5, 6, 3]], 4 * [[7, 8, 3]])
    every = np.arange(4)
    batch = make_batch(pairs, Batch(every, every, BatchShape(4, 3, 3)))
    row = ({k: v[:1] for k, v in batch[0].items()}, batch[1][:1])
    losses = []
    for part, micro_batches in ((row, 1), (batch, 4)):
        model = minute_model(dropout=0.5)
        model.compile(optimizer=keras.optimizers.SGD(0.0), jit_compile=False)
        model.micro_batches = micro_batches
        losses.append(float(_train_step(model, part)["loss"]))
    assert losses[0] != pytest.approx(losses[1], rel=1e-4)


def test_the_average_of_the_weights_is_the_textbooks():
    """ema_t = m ema_{t-1} + (1 - m) w_t, with a smaller m at the beginning."""
    model = minute_model()
    model.compile_for_training(ema=0.15)
    expected = weights_of(model)
    for update, batch in enumerate(_batches(4)):
        _train_step(model, batch)
        now = weights_of(model)
        m = min(0.15, update / (update + 9))
        expected = [m * e + (1 - m) * w for e, w in zip(expected, now)]
    with model.averaged_weights():
        assert largest_difference(weights_of(model), expected) <= 1e-6
    assert largest_difference(weights_of(model), now) == 0
    assert largest_difference(now, expected) > 1e-5


def test_stop_flags_are_returned():
    model = minute_model()
    logs = model.train_step(_batches(1)[0], tf.constant([1.0, 0.0]))
    assert (float(logs["signal"]), float(logs["time_up"])) == (1.0, 0.0)
