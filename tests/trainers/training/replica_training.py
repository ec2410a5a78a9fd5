"""Trains on one device and on several; a process of test_replicas.

python -m tests.trainers.training.replica_training DEVICES OUT

TensorFlow sets the number of its logical devices once in a process. Writes to
OUT (.npz) what each training gave, under "<training>/<what>".
"""

import gc
import sys

import keras
import numpy as np
import tensorflow as tf

from tests.keras_transformer import device_fits
from tests.trainers.helpers import (
    batches_of,
    made_up_pairs,
    minute_config,
    plan_of,
)
from trainers.batches import PlannedBatches, input_pipeline
from trainers.batches.token_pairs import make_batch
from trainers.training.strategies import make_strategy, split_cpu
from trainers.training.training_model import TrainingTransformer

STEPS = 8
TRAINING = made_up_pairs(150, seed=4)
# Of one shape: each is compiled, for every model.
PLAN = plan_of(TRAINING, shapes=1)
DEV = made_up_pairs(21, seed=5)
DEV_BATCHES = batches_of(DEV, shapes=1)
# Rounding may turn a ReLU on or off, and that token's whole gradient with it.
# With such an epsilon Adam's update depends on the clipped gradient's size.
SMOOTH = {
    "activation": "gelu",
    "learning_rate_scale": 0.05,
    "clip_norm": 0.05,
    "adam_epsilon": 1e-3,
}
DROPOUT = dict.fromkeys(
    ("dropout", "attention_dropout", "activation_dropout"), 0.5
)
NAMES = ("loss", "perplexity", "accuracy")


def make_model(strategy, micro_batches=1, **changes):
    keras.utils.set_random_seed(7)
    with strategy.scope():
        model = TrainingTransformer(
            minute_config(**changes), micro_batches=micro_batches
        )
        model.compile_for_training()
    return model


def train(strategy, micro_batches):
    """Returns weights before and after, each step's log, and dev."""
    model, rows = make_model(strategy, micro_batches, **SMOOTH), []
    made = {f"before/{n}": w.numpy() for n, w in enumerate(model.weights)}
    log = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: rows.append(
            [float(logs[name]) for name in (*NAMES, "tokens")]
        )
    )
    model.fit(
        input_pipeline.training_data(
            strategy, PlannedBatches(TRAINING, PLAN), 0
        ),
        steps_per_epoch=STEPS,
        callbacks=[log],
    )
    dev = model.evaluate(
        input_pipeline.evaluation_data(strategy, DEV_BATCHES),
        steps=DEV_BATCHES.batches_per_epoch,
    )
    made["dev"] = np.array([float(dev[name]) for name in NAMES])
    made["log"] = np.array(rows)
    after = {f"after/{n}": w.numpy() for n, w in enumerate(model.weights)}
    return made | after


def draw_dropout(strategy):
    """Masks of each dropout layer, and the loss of a batch, by replica.

    All replicas get the same batch.
    """
    model = make_model(strategy, **DROPOUT)
    layers = [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.Dropout) and layer.rate
    ]
    batch = make_batch(TRAINING, next(PLAN.from_step(0)))

    def draw():
        context = tf.distribute.get_replica_context()
        replica_id = tf.convert_to_tensor(context.replica_id_in_sync_group)
        sums, _ = model._gradient(*batch, tf.constant(1.0), replica_id)
        with model.seeds.for_replica(replica_id):
            masks = [layer(tf.ones((4, 16)), training=True) for layer in layers]
        return [sums["loss"], *masks]

    loss, *masks = (
        np.stack(
            [each.numpy() for each in strategy.experimental_local_results(made)]
        )
        for made in tf.function(lambda: strategy.run(draw))()
    )
    return {f"mask/{n}": mask for n, mask in enumerate(masks)} | {"loss": loss}


def main(devices, out):
    # Freeing the iterator of a training may wait seconds for its thread.
    gc.disable()
    split_cpu(int(devices))
    one, mirrored = make_strategy("one"), make_strategy("mirrored")
    results = {"replicas": np.array(mirrored.num_replicas_in_sync)}
    for name, arguments in {"one": (one, 1), "mirrored": (mirrored, 2)}.items():
        for key, value in train(*arguments).items():
            results[f"{name}/{key}"] = value
    for name, strategy in {"one": one, "mirrored": mirrored}.items():
        with strategy.scope():
            fits = device_fits.fit_all(run_eagerly=True)
        results |= {f"{name} keras/{key}": value for key, value in fits.items()}
    np.savez(out, **results, **draw_dropout(mirrored))


if __name__ == "__main__":
    main(*sys.argv[1:])
