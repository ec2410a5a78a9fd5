"""Trains the same on one device and on several; run by test_replicas.

python -m tests.trainers.replica_training DEVICES OUT

A process of its own, because TensorFlow takes the number of its logical
devices once. Writes to OUT (.npz) what each strategy made, under
"<strategy>/<experiment>/<what>".
"""

import sys

import keras
import numpy as np
import tensorflow as tf

from tests.trainers.helpers import made_up_pairs, minute_config, plan_of
from trainers import input_data
from trainers.strategies import make_strategy, split_cpu
from trainers.training_model import TrainingTransformer

ADAM_STEPS = 6
CLIP_NORM = 0.05
TRAINING = made_up_pairs(45, seed=4)
DEV = made_up_pairs(21, seed=5)


def make_model(strategy, optimizer=None, **changes):
    keras.utils.set_random_seed(7)
    with strategy.scope():
        model = TrainingTransformer(minute_config(**changes))
        model.compile_for_training()
        if optimizer is not None:
            model.compile(optimizer=optimizer(), jit_compile=False)
    return model


class Log(keras.callbacks.Callback):
    """Keeps what each step reports."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def on_train_batch_end(self, batch, logs=None):
        del batch
        names = ("loss", "perplexity", "accuracy", "tokens")
        self.rows.append([float(logs[name]) for name in names])


def fit(model, steps):
    log = Log()
    data = input_data.training_data(TRAINING, plan_of(TRAINING), 0)
    model.fit(
        data, steps_per_epoch=steps, callbacks=[log], shuffle=False, verbose=0
    )
    return np.array(log.rows)


def weights(model, name):
    return {f"{name}/{n}": w.numpy() for n, w in enumerate(model.weights)}


def with_adam(strategy):
    model = make_model(strategy)
    log = fit(model, ADAM_STEPS)
    data = input_data.evaluation_data(DEV, plan_of(DEV))
    dev = model.evaluate(data, return_dict=True, verbose=0)
    dev = [float(dev[name]) for name in ("loss", "perplexity", "accuracy")]
    return {"log": log, "dev": np.array(dev), **weights(model, "weights")}


def with_clipping(strategy):
    """One step with rate 1: the weights' change is minus the gradient."""
    model = make_model(
        strategy, lambda: keras.optimizers.SGD(1.0), clip_norm=CLIP_NORM
    )
    before = weights(model, "before")
    return {"log": fit(model, 1), **before, **weights(model, "after")}


def dropout_masks(strategy):
    """What the model's dropout leaves of ones, on each replica."""
    model = make_model(strategy, dropout=0.5)
    ones = tf.ones((4, 16))

    def mask():
        context = tf.distribute.get_replica_context()
        replica = tf.convert_to_tensor(context.replica_id_in_sync_group)
        with model.seeds.of(replica):
            return model.embedding_dropout(ones, training=True)

    masks = tf.function(lambda: strategy.run(mask))()
    masks = strategy.experimental_local_results(masks)
    return {"masks": np.stack([each.numpy() for each in masks])}


EXPERIMENTS = {
    "adam": with_adam,
    "clip": with_clipping,
    "dropout": dropout_masks,
}


def main(devices, out):
    split_cpu(int(devices))
    results = {}
    for name in ("one", "mirrored"):
        strategy = make_strategy(name)
        count = strategy.num_replicas_in_sync
        results[f"{name}/replicas"] = np.array(count)
        for experiment, run in EXPERIMENTS.items():
            for key, value in run(strategy).items():
                results[f"{name}/{experiment}/{key}"] = value
    np.savez(out, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
