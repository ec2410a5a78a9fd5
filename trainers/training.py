"""Trains through `model.fit`, from the first step or where it stopped."""

import math
import sys
import time

import keras
import numpy as np

from trainers import input_data
from trainers.checkpoints import Checkpoints
from trainers.keep_checkpoints import KeepCheckpoints
from trainers.length_batches import plan_batches
from trainers.progress import Progress
from trainers.stop_signals import StopSignals
from trainers.strategies import make_strategy
from trainers.training_model import TrainingTransformer


def train(prepared, plan):
    """Trains until the configured step, the time limit or a signal.

    Args:
        prepared: Prepared.
        plan: TrainingPlan.

    Returns:
        The number of updates made; the model directory then holds the
        weights to use.

    Raises:
        InputError: a checkpoint does not fit, or cannot be written.
        SystemExit: SIGINT or SIGTERM came; a checkpoint was saved.
    """
    config, directory = prepared.config, prepared.directory
    model = _new_model(config, plan)
    checkpoints = Checkpoints(
        directory.checkpoints_path,
        max(plan.keep_checkpoints, config.average_checkpoints),
    )
    first_step = checkpoints.restore_latest(model)
    _announce(model, prepared, first_step)
    step = first_step
    if first_step < config.train_steps:
        step = _fit(model, prepared, plan, checkpoints, first_step)
    _write_weights(model, config, directory, checkpoints)
    return step


def _new_model(config, plan):
    # Keras draws all weights and dropout from this; the data's order has a
    # generator of its own.
    keras.utils.set_random_seed(plan.seed)
    with make_strategy(plan.strategy).scope():
        model = TrainingTransformer(
            config, compile_gradient=plan.jit, dtype=plan.precision
        )
        model.compile_for_training()
    return model


def _announce(model, prepared, first_step):
    replicas = model.distribute_strategy.num_replicas_in_sync
    print(
        f"Model: {model.count_params():,} parameters, on {replicas} "
        f"device{'s' * (replicas > 1)}. "
        + (
            f"Going on from step {first_step:,}."
            if first_step
            else "The first steps are slow: each shape is compiled once."
        ),
        f"TensorBoard: tensorboard --logdir {prepared.directory.logs_path}",
        sep="\n",
        flush=True,
    )


def _fit(model, prepared, plan, checkpoints, first_step):
    config = prepared.config
    batches = _plan(prepared.training, config, plan)
    stop_time = None
    if plan.train_minutes:
        stop_time = time.monotonic() + 60 * plan.train_minutes
    progress = Progress(
        prepared.directory.logs_path,
        first_step,
        config.train_steps,
        plan.report_steps,
        stop_time,
        sys.stdout,
    )
    keeper = KeepCheckpoints(
        checkpoints,
        first_step,
        config.train_steps,
        plan.checkpoint_steps,
        plan.checkpoint_minutes,
        stop_time,
    )
    rounds = math.ceil((config.train_steps - first_step) / plan.dev_steps)
    dev_data = None
    if prepared.dev is not None:
        dev_data = input_data.evaluation_data(
            prepared.dev, _plan(prepared.dev, config, plan)
        )
    with StopSignals(keeper.stop) as signals:
        # One of Keras' epochs is the stretch between two dev measures; the
        # data's own epochs are the plan's.
        model.fit(
            input_data.training_data(prepared.training, batches, first_step),
            epochs=rounds,
            steps_per_epoch=plan.dev_steps,
            validation_data=dev_data,
            callbacks=[progress, keeper],
            shuffle=False,
            verbose=0,
        )
    if signals.received:
        print(f"Saved at step {keeper.step:,}; the same command goes on.")
        sys.exit(128 + signals.received)
    return keeper.step


def _plan(pairs, config, plan):
    lengths = np.maximum(pairs.source_lengths, pairs.target_lengths)
    return plan_batches(lengths, config.batch_tokens, plan.shapes, plan.seed)


def _write_weights(model, config, directory, checkpoints):
    if config.average_checkpoints > 1:
        used = checkpoints.average(model, config.average_checkpoints)
        print("Averaged the checkpoints of steps", *used)
    directory.write_weights(model)
