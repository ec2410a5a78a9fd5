"""Trains with `model.fit`, from the start or the latest checkpoint."""

import dataclasses
import sys

import keras

from export.common import command
from export.common.errors import InputError
from export.common.processes import StopSignals
from export.translators.translator import Translator
from trainers.batches import plan_batches, plan_groups
from trainers.batches.token_pairs import decode_pairs
from trainers.pictures.summaries import (
    AttentionSummaries,
    choose_attention_sentences,
)
from trainers.scores.score_records import TrainingLog
from trainers.training.backend import new_training_model, strategies
from trainers.training.callbacks import (
    EvaluateDev,
    PrintTranslations,
    Progress,
    SaveCheckpoints,
    StepCounter,
    format_metrics,
)
from trainers.training.checkpoints import Checkpoints
from trainers.training.dev_scores import (
    SCORE_TITLES,
    evenly_spaced_indices,
    has_plateaued,
    make_dev_scores,
    rank_evaluations,
    score_name,
)
from trainers.training.initial_weights import ModelInitializer
from trainers.training.strategy_base import Strategy
from trainers.training.time_budget import TimeBudget
from trainers.training.training_inputs import TrainingInputs
from trainers.training.training_options import TrainingOptions

# Sentences that --sample_minutes translates.
_NUM_SAMPLES = 3


def train(
    inputs: TrainingInputs,
    options: TrainingOptions,
    strategy: Strategy,
    run_info: dict[str, str],
    initializer: ModelInitializer | None = None,
) -> None:
    """Trains until the last step, the time limit, a plateau or a signal.

    Then writes the final weights into the model directory. `run_info`, the
    command, hardware and date, goes into training.json. Raises SystemExit after
    SIGINT or SIGTERM, with a checkpoint saved.
    """
    directory = inputs.directory
    log = TrainingLog(directory)
    config = _planned_config(inputs.config, options, log)
    model = _make_model(config, options, strategy)
    checkpoints = Checkpoints(
        directory.checkpoints_path,
        max(options.keep_checkpoints, config.average_checkpoints),
    )
    step, history = checkpoints.restore_latest(model)
    if log.last_step and not step:
        raise InputError(
            f"The training in {directory.path} had reached step "
            f"{log.last_step:,}, but {checkpoints.folder} has no checkpoint; "
            "restore one, or use another --model_dir, with "
            f"--init_from={directory.path} for its final weights."
        )
    if initializer is not None and not step:
        initializer.load(model)
    elif initializer is not None:
        print(
            f"{initializer.flag_text} is ignored: this training has begun, "
            "and resumes from its own checkpoint.",
            flush=True,
        )
    _validate_equal_steps(strategy, step)
    if strategies.is_chief(strategy):
        if config != inputs.config:
            directory.write_config(config)
        replicas = strategy.num_replicas_in_sync
        start = f"Resuming from step {step:,}."
        tensorboard = command.command_line(
            "tensorboard", "--logdir", directory.logs_path
        )
        print(
            f"Model: {model.count_params():,} parameters, on {replicas} "
            f"device{'s' * (replicas > 1)}. "
            f"{start if step else 'The first steps are slow.'}",
            f"TensorBoard: {tensorboard}",
            sep="\n",
            flush=True,
        )
    counter = StepCounter(step, config.train_steps)
    if not counter.finished and not has_plateaued(history, options.patience):
        log.start_run(step, run_info)
        config = _fit(
            *(model, config, inputs, options),
            *(checkpoints, counter, history, log),
        )
    elif strategies.is_chief(strategy):
        flag = f"--patience={options.patience}"
        if counter.finished:
            flag = f"--train_steps={config.train_steps}"
        print(f"There are no more updates: {flag} was reached.", flush=True)
        if step not in checkpoints.steps():
            # A signal saved it, but now it ends the training, and is averaged.
            checkpoints.save(model, step, history)
    if strategies.is_chief(strategy):
        if strategies.is_multiworker(strategy):
            model = _copy_locally(model, options)
        step, origin, evaluation = _load_final_weights(
            model, options, config, checkpoints, counter.step, history
        )
        if inputs.dev is None:
            print(f"Final weights: {origin}; there is no dev split.")
        else:
            if evaluation is None:
                evaluation = _evaluate_weights(model, inputs, options, step)
            advice = _advise_weights(options, config)
            _report_final_weights(origin, evaluation, history, advice)
        directory.write_weights(model)
        log.record_weights(step, origin)


def _validate_equal_steps(strategy, step):
    """Raises InputError if workers resume from different steps."""
    if not strategies.is_multiworker(strategy):
        return
    steps = strategies.gather_steps(strategy, step)
    if any(each != step for each in steps):
        raise InputError(
            f"The workers found checkpoints of different steps ({steps}); "
            "--model_dir must be one folder that all of them share."
        )


def _make_model(config, options, strategy):
    # For weights and dropout; the order of the data has its own generators.
    keras.utils.set_random_seed(options.seed)
    with strategy.scope():
        model = new_training_model(
            config,
            compile_gradient=options.jit,
            micro_batches=options.accumulate,
            dtype=options.precision,
        )
        model.compile_for_training(options.ema)
    return model


def _copy_locally(model, options):
    """Returns a copy that computes without the other workers."""
    copy = _make_model(model.config, options, strategies.local_strategy())
    for variable, trained in zip(
        [*copy.variables, *copy.optimizer.variables],
        [*model.variables, *model.optimizer.variables],
    ):
        variable.assign(trained.numpy())
    return copy


def _has_plan(options, log):
    """Whether an earlier run planned the updates of this time."""
    return log.plan.get("train_minutes") == options.train_minutes


def _planned_config(config, options, log):
    """Returns the config with the updates that an earlier run planned."""
    if not _has_plan(options, log):
        return config
    names = "train_steps", "cooldown_steps"
    plan = {name: log.plan[name] for name in names}
    return dataclasses.replace(config, **plan)


def _fit(model, config, inputs, options, checkpoints, counter, history, log):
    """Trains; returns the config, with the updates that fit into the time."""
    strategy = model.distribute_strategy
    chief = strategies.is_chief(strategy)
    callbacks = [counter]
    budget = stop_time = end_time = None
    if options.train_minutes and not _has_plan(options, log):
        budget = TimeBudget(options.train_minutes, config)
        stop_time, end_time = budget.plan_time, budget.end_time
        callbacks.append(budget)
    if chief:
        log_dir = inputs.directory.logs_path
        progress = Progress(
            counter, log_dir, options.report_steps, end_time, sys.stdout
        )
        callbacks.append(progress)

    def report(evaluation):
        if not chief:
            return
        progress.report_dev(evaluation)
        saves_best = options.keep_best or score_name(evaluation)
        if saves_best and rank_evaluations(history)[0] is evaluation:
            model.sync_variables()
            checkpoints.save(model, counter.step, history, "best")

    def save(prefix):
        if chief:
            model.sync_variables()
            checkpoints.save(model, counter.step, history, prefix)
            log.record_step(counter.step)

    if inputs.dev is not None:
        callbacks.append(
            _dev_evaluation(model, inputs, options, counter, history, report)
        )
        if chief and options.attention_steps != 0:
            callbacks.append(
                _attention_summaries(model, inputs, options, counter)
            )
        if chief and options.sample_minutes:
            callbacks.append(_print_translations(model, inputs, options))
    # Last, so that it saves what the other callbacks computed.
    saver = SaveCheckpoints(
        counter,
        save,
        options.checkpoint_steps,
        options.checkpoint_minutes,
        stop_time,
    )
    callbacks.append(saver)
    batches = plan_groups(inputs.training, inputs.config, options)

    def fit():
        model.fit(
            model.training_data(batches, counter.step),
            steps_per_epoch=counter.last - counter.step,
            callbacks=callbacks,
        )

    with (
        StopSignals(saver.stop) as signals,
        batches.report_error(),
        strategy.scope(),
    ):
        fit()
        is_over = (
            counter.finished
            or saver.interrupted
            or has_plateaued(history, options.patience)
        )
        if saver.time_is_up and config.cooldown_steps and not is_over:
            last = budget.plan_end(counter.step)
            if strategies.is_multiworker(strategy):
                last = int(min(strategies.gather_steps(strategy, last)))
            config = budget.plan_config(counter.step, last)
            if chief:
                log.record_plan(options.train_minutes, config)
                inputs.directory.write_config(config)
                print(f"{last:,} updates fit into the time.", flush=True)
            model.change_duration(config)
            saver.remove_time_limit()
            counter.last = last
            fit()
    if saver.interrupted:
        print(f"Saved at step {counter.step:,}; the same command resumes.")
        # Without a signal of its own, another worker received one.
        sys.exit(128 + (signals.received or 15))
    return config


def _attention_summaries(model, inputs, options, counter):
    tokenizer = inputs.directory.load_tokenizer()
    count = options.attention_sentences
    indices = choose_attention_sentences(inputs.dev, count)
    sources, references = decode_pairs(tokenizer, inputs.dev, indices)
    log_dir = inputs.directory.logs_path
    steps = options.attention_steps or options.dev_steps
    return AttentionSummaries(
        counter, model, tokenizer, sources, references, log_dir, steps
    )


def _print_translations(model, inputs, options):
    tokenizer = inputs.directory.load_tokenizer()
    translator = Translator.from_model(model, tokenizer)
    indices = evenly_spaced_indices(inputs.dev, _NUM_SAMPLES)
    sources, _ = decode_pairs(tokenizer, inputs.dev, indices)

    def translate(sources):
        return [each.text for each in translator.translate(sources)]

    return PrintTranslations(
        translate, sources, options.sample_minutes, sys.stdout
    )


def _dev_evaluation(model, inputs, options, counter, history, report):
    batches = plan_batches(inputs.dev, inputs.config, options)
    return EvaluateDev(
        counter,
        model.evaluation_data(batches),
        batches.batches_per_epoch,
        options.dev_steps,
        options.patience,
        history,
        report,
        make_dev_scores(model, inputs, options),
    )


def _load_final_weights(model, options, config, checkpoints, step, history):
    """Loads the final weights; returns step, origin, dev evaluation or None."""
    if options.keep_best:
        for rank, evaluation in enumerate(rank_evaluations(history)):
            best_step = evaluation["step"]
            if checkpoints.restore_step(model, best_step):
                model.use_average()
                metric = SCORE_TITLES.get(score_name(evaluation), "loss")
                # Checkpoints of better steps may be missing or damaged.
                best = "the best available" if rank else "the best"
                origin = f"step {best_step:,}, {best} by dev {metric}"
                return best_step, origin, evaluation
        print("No evaluated step has a checkpoint: the last step is used.")
    model.use_average()
    evaluation = next((each for each in history if each["step"] == step), None)
    if options.ema:
        return step, f"moving average of momentum {options.ema}", evaluation
    count = config.average_checkpoints
    if count > 1:
        first = _first_step_to_average(config, step)
        averaged = checkpoints.load_average(model, count, first)
        if averaged:
            steps = ", ".join(map(str, averaged))
            origin = f"average of the checkpoints of steps {steps}"
            return step, origin, evaluation if averaged == [step] else None
        print("There is no checkpoint to average: the last step is used.")
    return step, "the last step", evaluation


def _first_step_to_average(config, step):
    """Returns the step of the earliest checkpoint that may be averaged."""
    # During the cooldown the model improves so much that averaging checkpoints
    # of its first two thirds would undo part of it.
    first = config.train_steps - config.cooldown_steps // 3
    return first if config.cooldown_steps and step >= first else 0


def _evaluate_weights(model, inputs, options, step):
    """Returns the evaluation of the weights on dev."""
    dev = _dev_evaluation(model, inputs, options, None, [], None)
    dev.set_model(model)
    return dev.evaluate(step)


def _advise_weights(options, config):
    """Returns the flags that choose other final weights, as a clause or ""."""
    if options.keep_best:
        return ""
    if options.ema or config.average_checkpoints < 2:
        return "; --keep_best takes the best weights"
    return (
        "; --average_checkpoints=0 takes the last weights, --keep_best instead "
        "of averaging the best"
    )


def _report_final_weights(origin, evaluation, history, advice):
    """Prints the dev evaluation of the final weights; warns if it is worse."""
    print(
        f"Final weights: {origin}; dev {format_metrics(evaluation)}.",
        flush=True,
    )
    last = history[-1] if history else evaluation
    if rank_evaluations([evaluation, last])[0] is not evaluation:
        print(
            f"Warning: that is worse than at step {last['step']:,}, dev "
            f"{format_metrics(last)}{advice}."
        )
