"""Trains through `model.fit`, from the first step or where it stopped."""

import sys
import time

import keras
import tensorflow as tf

from export.common.processes import StopSignals
from trainers.batches import input_pipeline, make_plan
from trainers.batches.token_pairs import decode_pairs
from trainers.pictures.summaries import AttentionSummaries, choose_sentences
from trainers.provenance import TrainingLog
from trainers.training.callbacks import (
    EvaluateDev,
    SaveCheckpoints,
    StepCounter,
)
from trainers.training.checkpoints import Checkpoints
from trainers.training.dev_scores import (
    SCORE_TITLES,
    has_plateaued,
    make_dev_score,
    rank_measures,
    score_name,
)
from trainers.training.progress import Progress, format_metrics
from trainers.training.strategies import (
    has_gpu,
    is_chief,
    report_lost_workers,
    validate_equal_steps,
)
from trainers.training.training_model import TrainingTransformer


def train(prepared, plan, strategy, made, beginning=None):
    """Trains until the configured step, the time limit, a plateau or a signal.

    Args:
        prepared: Prepared.
        plan: TrainingPlan.
        strategy: tf.distribute.Strategy.
        made: dict of command, hardware and date, for the training's log.
        beginning: of initial_weights, what a new training begins with; None
            for fresh weights.

    The model directory then holds the weights to use.

    Raises:
        InputError: a checkpoint does not fit, or cannot be written, or the
            training diverged; the weights to use are as before.
        SystemExit: SIGINT or SIGTERM came; a checkpoint was saved.
    """
    config, directory = prepared.config, prepared.directory
    model = _new_model(config, plan, strategy)
    checkpoints = Checkpoints(
        directory.checkpoints_path,
        max(plan.keep_checkpoints, config.average_checkpoints),
    )
    log = TrainingLog(directory)
    step, history = checkpoints.restore_latest(model)
    if beginning is not None:
        _begin_with(model, beginning, step)
    validate_equal_steps(strategy, step)
    if is_chief(strategy):
        _announce(model, prepared, step)
    counter = StepCounter(step, config.train_steps)
    if not counter.finished and not has_plateaued(history, plan.patience):
        log.begin(step, made)
        _fit(model, prepared, plan, checkpoints, counter, history, log)
    if is_chief(strategy):
        step, origin, measure = _final_weights(
            model, plan, config, checkpoints, counter.step, history
        )
        _tell_final(model, prepared, plan, (step, origin, measure), history)
        directory.write_weights(model)
        log.record_weights(step, origin)


def _begin_with(model, beginning, step):
    if not step:
        beginning.load(model)
        return
    print(
        f"{beginning.said} is not read: the training has begun, and resumes "
        "from its own checkpoint.",
        flush=True,
    )


def _new_model(config, plan, strategy):
    # Keras draws all weights and dropout from this; the data's order has a
    # generator of its own.
    keras.utils.set_random_seed(plan.seed)
    with strategy.scope():
        model = TrainingTransformer(
            config,
            compile_gradient=has_gpu() if plan.jit is None else plan.jit,
            micro_batches=plan.accumulate,
            dtype=plan.precision,
        )
        model.compile_for_training(plan.ema)
    return model


def _announce(model, prepared, first_step):
    replicas = model.distribute_strategy.num_replicas_in_sync
    print(
        f"Model: {model.count_params():,} parameters, on {replicas} "
        f"device{'s' * (replicas > 1)}. "
        + (
            f"Resuming from step {first_step:,}."
            if first_step
            else "The first steps are slow."
        ),
        f"TensorBoard: tensorboard --logdir {prepared.directory.logs_path}",
        sep="\n",
        flush=True,
    )


def _fit(model, prepared, plan, checkpoints, counter, history, log):
    strategy = model.distribute_strategy
    config = prepared.config
    stop_time = None
    if plan.train_minutes:
        stop_time = time.monotonic() + 60 * plan.train_minutes
    callbacks, report = [counter], _say_nothing
    save = save_stop = _write_nothing
    if is_chief(strategy):
        progress = Progress(
            counter,
            prepared.directory.logs_path,
            plan.report_steps,
            stop_time,
            sys.stdout,
        )
        callbacks.append(progress)

        def report(measure):
            progress.report_dev(measure)
            if plan.saves_best and rank_measures(history)[0] is measure:
                checkpoints.save_best(model, counter.step, history)

        def save():
            checkpoints.save(model, counter.step, history)
            log.note(counter.step)

        def save_stop():
            checkpoints.save_stop(model, counter.step, history)
            log.note(counter.step)

    if prepared.dev is not None:
        callbacks.append(
            _measure_dev(model, prepared, plan, counter, history, report)
        )
        if is_chief(strategy) and plan.attention_steps != 0:
            callbacks.append(_show_attention(model, prepared, plan, counter))
    # The last, so that what it saves knows what the others found.
    keeper = SaveCheckpoints(
        counter,
        save,
        save_stop,
        plan.checkpoint_steps,
        plan.checkpoint_minutes,
        stop_time,
    )
    batches = make_plan(prepared.training, config, plan)
    with (
        StopSignals(keeper.stop) as signals,
        report_lost_workers(strategy),
    ):
        model.fit(
            input_pipeline.training_data(
                strategy, prepared.training, batches, counter.first
            ),
            steps_per_epoch=counter.last - counter.first,
            callbacks=[*callbacks, keeper],
            shuffle=False,
            verbose=0,
        )
    if keeper.interrupted:
        _leave(counter.step, signals.received)


def _show_attention(model, prepared, plan, counter):
    tokenizer = prepared.directory.load_tokenizer()
    numbers = choose_sentences(prepared.dev, plan.attention_sentences)
    return AttentionSummaries(
        counter,
        model,
        tokenizer,
        *decode_pairs(tokenizer, prepared.dev, numbers),
        prepared.directory.logs_path,
        plan.attention_steps or plan.dev_steps,
    )


def _measure_dev(model, prepared, plan, counter, history, report):
    batches = make_plan(prepared.dev, prepared.config, plan)
    data = input_pipeline.evaluation_data(
        model.distribute_strategy, prepared.dev, batches
    )
    return EvaluateDev(
        counter,
        data,
        batches.batches_per_epoch,
        plan.dev_steps,
        plan.patience,
        history,
        report,
        make_dev_score(model, prepared, plan),
    )


def _say_nothing(measure):
    """Another worker reports."""


def _write_nothing():
    """Another worker writes."""


def _leave(step, signal_number):
    print(f"Saved at step {step:,}; the same command resumes.", flush=True)
    # A worker that only heard of another's signal was asked to stop as well.
    sys.exit(128 + (signal_number or 15))


def _final_weights(model, plan, config, checkpoints, step, history):
    """Gives the model the weights to use.

    Returns:
        Their step, their origin in words, and their measure of dev, or None
        where they are not measured yet.
    """
    if plan.keep_best:
        for place, measure in enumerate(rank_measures(history)):
            if checkpoints.use(model, measure["step"]):
                model.use_average()
                origin = _describe_best(measure, place)
                return measure["step"], origin, measure
        print("No checkpoint of a measured step is left: the last is used.")
    model.use_average()
    last = next((each for each in history if each["step"] == step), None)
    if plan.ema:
        return step, f"moving average of momentum {plan.ema}", last
    if config.average_checkpoints > 1:
        used = checkpoints.average(
            model, config.average_checkpoints, _averaged_from(config, step)
        )
        if used:
            print("Averaged the checkpoints of steps", *used)
            steps = ", ".join(map(str, used))
            measure = last if used == [step] else None
            return step, f"average of the checkpoints of steps {steps}", measure
        print("There is no checkpoint to average: the last step is used.")
    return step, "the last step", last


def _tell_final(model, prepared, plan, weights, history):
    """Says what dev measures of the weights to use, and where they are worse.

    Raises:
        InputError: they are of no use.
    """
    step, origin, measure = weights
    if prepared.dev is None:
        print(f"Final weights: {origin}; there is no dev split to measure on.")
        return
    if measure is None:
        if model.distribute_strategy.cluster_resolver is not None:
            # The other workers do not take part.
            alone = tf.distribute.get_strategy()
            model, trained = _new_model(prepared.config, plan, alone), model
            model.set_weights(trained.get_weights())
        dev = _measure_dev(model, prepared, plan, None, history, None)
        dev.set_model(model)
        measure = dev.measure(step)
    print(
        f"Final weights: {origin}; dev {format_metrics(measure)}.", flush=True
    )
    *_, worst = rank_measures([*history[-1:], measure])
    if history and worst is measure and worst is not history[-1]:
        print(
            f"Warning: that is worse than at step {history[-1]['step']:,}, "
            f"dev {format_metrics(history[-1])}; "
            "--average_checkpoints=0 takes the last weights, --keep_best the "
            "best."
        )


def _averaged_from(config, step):
    """Returns the step from which on checkpoints may be averaged.

    While the rate falls to 0 a model gains so much that those of its first
    two thirds would undo some of it. What ended before has nothing to undo.
    """
    settled = config.train_steps - config.cooldown_steps // 3
    return settled if config.cooldown_steps and step >= settled else 0


def _describe_best(measure, better):
    """Says which step it is; of `better` ones there is no checkpoint."""
    kind, figure = "loss", f"{measure['loss']:.4f}"
    name = score_name(measure)
    if name:
        kind, figure = SCORE_TITLES[name], f"{measure[name]:.2f}"
    best = "the best" if not better else "the best that is left"
    print(
        f"The final weights are those of step {measure['step']:,}, whose dev "
        f"{kind} was {best}, {figure}."
    )
    return f"{best} step by dev {kind}, {figure}"
