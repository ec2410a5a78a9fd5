"""Trains on one device and on several; a process of test_replicas.

python -m tests.trainers.training.replica_training DEVICES OUT [--relu]

TensorFlow sets the number of its logical devices once in a process. Writes to
OUT (.npz) what each training gave, under "<training>/<what>".
"""

import sys

import keras
import numpy as np
import tensorflow as tf

from tests.trainers.helpers import made_up_pairs, minute_config, plan_of
from trainers.batches import collate, input_pipeline
from trainers.training.strategies import make_strategy, split_cpu
from trainers.training.training_model import TrainingTransformer

STEPS = 12
TRAINING = made_up_pairs(150, seed=4)
# Of one shape: each is compiled, for every model.
PLAN = plan_of(TRAINING, shapes=1)
DEV = made_up_pairs(21, seed=5)
DEV_PLAN = plan_of(DEV, shapes=1)
# Rounding may turn a ReLU on or off, and that token's whole gradient with it:
# a smooth activation shows other differences at a high rate. With such an
# epsilon Adam's update depends on the size of the clipped gradient.
SMOOTH = {
    "activation": "gelu",
    "learning_rate_scale": 0.05,
    "clip_norm": 0.05,
    "adam_epsilon": 1e-3,
}
RELU = {"warmup_steps": 4000, "learning_rate_scale": (8 / 512) ** 0.5}
DROPOUT = dict.fromkeys(
    ("dropout", "attention_dropout", "activation_dropout"), 0.5
)


def make_model(strategy, micro_batches=1, **changes):
    keras.utils.set_random_seed(7)
    with strategy.scope():
        model = TrainingTransformer(
            minute_config(**changes), micro_batches=micro_batches
        )
        model.compile_for_training()
    return model


class _Log(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.rows = []

    def on_train_batch_end(self, batch, logs=None):
        names = ("loss", "perplexity", "accuracy", "tokens")
        self.rows.append([float(logs[name]) for name in names])


def train(strategy, micro_batches, changes):
    """Returns weights before and after, each step's log, and dev."""
    model, log = make_model(strategy, micro_batches, **changes), _Log()
    made = {f"before/{n}": w.numpy() for n, w in enumerate(model.weights)}
    model.fit(
        input_pipeline.training_data(strategy, TRAINING, PLAN, 0),
        steps_per_epoch=STEPS,
        callbacks=[log],
        shuffle=False,
        verbose=0,
    )
    dev = model.evaluate(
        input_pipeline.evaluation_data(strategy, DEV, DEV_PLAN),
        steps=DEV_PLAN.batches_per_epoch,
        return_dict=True,
        verbose=0,
    )
    names = ("loss", "perplexity", "accuracy")
    made["dev"] = np.array([float(dev[name]) for name in names])
    made["log"] = np.array(log.rows)
    after = {f"after/{n}": w.numpy() for n, w in enumerate(model.weights)}
    return made | after


def dropout_masks(strategy, model):
    """What each of the model's dropout layers makes of ones, by replica."""
    layers = [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.Dropout) and layer.rate
    ]
    ones = tf.ones((4, 16))

    def masks():
        context = tf.distribute.get_replica_context()
        replica_id = tf.convert_to_tensor(context.replica_id_in_sync_group)
        with model.seeds.for_replica(replica_id):
            return [layer(ones, training=True) for layer in layers]

    made = tf.function(lambda: strategy.run(masks))()
    return {
        f"mask/{number}": np.stack(
            [each.numpy() for each in strategy.experimental_local_results(mask)]
        )
        for number, mask in enumerate(made)
    }


def loss_of_equal_rows(strategy, model):
    """The mean loss of a step whose rows all replicas have alike."""
    batch = collate.make_batch(TRAINING, next(PLAN.from_step(0)))
    arguments = (batch, tf.zeros(2))
    logs = tf.function(lambda: strategy.run(model.train_step, args=arguments))()
    return float(strategy.experimental_local_results(logs["loss"])[0])


def main(devices, out, *options):
    split_cpu(int(devices))
    one, mirrored = make_strategy("one"), make_strategy("mirrored")
    ways = {"one": (one, 1), "mirrored": (mirrored, 1)}
    changes = RELU
    if "--relu" not in options:
        changes = SMOOTH
        ways["accumulated"] = (mirrored, 2)
    results = {"replicas": np.array(mirrored.num_replicas_in_sync)}
    for name, way in ways.items():
        for key, value in train(*way, changes).items():
            results[f"{name}/{key}"] = value
    if "--relu" not in options:
        for name, (strategy, _) in list(ways.items())[:2]:
            model = make_model(strategy, **DROPOUT)
            results[f"{name}/loss"] = loss_of_equal_rows(strategy, model)
        results |= dropout_masks(mirrored, model)
    np.savez(out, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
