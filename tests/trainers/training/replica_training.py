"""Trains the same on one device and on several; run by test_replicas.

python -m tests.trainers.training.replica_training DEVICES OUT EXPERIMENT...

A process of its own, because TensorFlow takes the number of its logical
devices once. Writes to OUT (.npz) what each way made, under
"<way>/<experiment>/<what>".
"""

import sys

import keras
import numpy as np
import tensorflow as tf

from tests.trainers.helpers import made_up_pairs, minute_config, plan_of
from trainers.batches import collate, input_pipeline
from trainers.training.strategies import make_strategy, split_cpu
from trainers.training.training_model import TrainingTransformer

STEPS = 20
CLIP_NORM = 0.05
MICRO_BATCHES = 4
TRAINING = made_up_pairs(150, seed=4)
# Of one shape: each is compiled, for every model.
PLAN = plan_of(TRAINING, shapes=1)
DEV = made_up_pairs(21, seed=5)
DEV_PLAN = plan_of(DEV, shapes=1)
# Rounding may turn a ReLU on or off, and that token's whole gradient with it.
# A smooth activation shows at a high rate what else would differ; ReLU is
# held to the same at the rates of the paper's schedule for the base model.
DROPOUTS = dict.fromkeys(
    ("dropout", "attention_dropout", "activation_dropout"), 0.5
)
CONFIGS = {
    "smooth": {"activation": "gelu", "learning_rate_scale": 0.05},
    "paper": {
        "warmup_steps": 4000,
        "learning_rate_scale": (8 / 512) ** 0.5,
    },
}


def make_model(strategy, optimizer=None, micro_batches=1, **changes):
    keras.utils.set_random_seed(7)
    with strategy.scope():
        model = TrainingTransformer(
            minute_config(**changes), micro_batches=micro_batches
        )
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
    data = input_pipeline.training_data(
        model.distribute_strategy,
        TRAINING,
        PLAN,
        0,
    )
    model.fit(
        data, steps_per_epoch=steps, callbacks=[log], shuffle=False, verbose=0
    )
    return np.array(log.rows)


def weights(model, name):
    return {f"{name}/{n}": w.numpy() for n, w in enumerate(model.weights)}


def with_adam(strategy, micro_batches, config):
    model = make_model(strategy, micro_batches=micro_batches, **CONFIGS[config])
    log = fit(model, STEPS)
    return model, {"log": log, **weights(model, "weights")}


def smooth(*way):
    model, made = with_adam(*way, "smooth")
    dev = model.evaluate(
        input_pipeline.evaluation_data(
            model.distribute_strategy, DEV, DEV_PLAN
        ),
        steps=DEV_PLAN.batches_per_epoch,
        return_dict=True,
        verbose=0,
    )
    dev = [float(dev[name]) for name in ("loss", "perplexity", "accuracy")]
    return made | {"dev": np.array(dev)}


def paper(*way):
    return with_adam(*way, "paper")[1]


def with_clipping(strategy, micro_batches):
    """One step with rate 1: the weights' change is minus the gradient."""
    model = make_model(
        strategy,
        lambda: keras.optimizers.SGD(1.0),
        micro_batches,
        clip_norm=CLIP_NORM,
    )
    before = weights(model, "before")
    return {"log": fit(model, 1), **before, **weights(model, "after")}


def dropout_masks(strategy, micro_batches):
    """What each of the model's dropout layers leaves of ones, by replica."""
    model = make_model(strategy, micro_batches=micro_batches, **DROPOUTS)
    layers = dropout_layers(model)
    ones = tf.ones((4, 16))

    def masks():
        context = tf.distribute.get_replica_context()
        replica = tf.convert_to_tensor(context.replica_id_in_sync_group)
        with model.seeds.of(replica):
            return [layer(ones, training=True) for layer in layers]

    made = tf.function(lambda: strategy.run(masks))()
    return {
        f"masks/{number}": np.stack(
            [each.numpy() for each in strategy.experimental_local_results(mask)]
        )
        for number, mask in enumerate(made)
    }


def dropout_layers(model):
    """All layers of the model that drop something."""
    return [
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, keras.layers.Dropout) and layer.rate
    ]


def same_rows(strategy, micro_batches):
    """The gradient of a batch that all replicas have alike, summed."""
    made = {}
    for name, rates in {"dropping": DROPOUTS, "whole": {}}.items():
        model = make_model(
            strategy,
            lambda: keras.optimizers.SGD(1.0),
            micro_batches,
            **rates,
        )
        before = weights(model, f"{name}/before")
        batch = collate.make_batch(TRAINING, next(PLAN.from_step(0)))
        step = tf.function(
            lambda model=model, batch=batch: strategy.run(
                model.train_step, args=(batch, tf.zeros(2))
            )
        )
        step()
        made |= before | weights(model, f"{name}/after")
    return made


EXPERIMENTS = {
    "smooth": smooth,
    "paper": paper,
    "clip": with_clipping,
    "dropout": dropout_masks,
    "same": same_rows,
}


def main(devices, out, *experiments):
    split_cpu(int(devices))
    one, mirrored = make_strategy("one"), make_strategy("mirrored")
    ways = {
        "one": (one, 1, EXPERIMENTS),
        "mirrored": (mirrored, 1, EXPERIMENTS),
        "accumulated": (one, MICRO_BATCHES, ("smooth", "clip")),
        "both": (mirrored, 2, ("smooth",)),
    }
    results = {}
    for name, (strategy, micro_batches, of_way) in ways.items():
        count = strategy.num_replicas_in_sync
        results[f"{name}/replicas"] = np.array(count)
        for experiment in filter(of_way.__contains__, experiments):
            made = EXPERIMENTS[experiment](strategy, micro_batches)
            for key, value in made.items():
                results[f"{name}/{experiment}/{key}"] = value
    np.savez(out, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
