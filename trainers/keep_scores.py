"""Puts an evaluation into a model directory's scores.json."""

from trainers.checkpoints import Checkpoints
from trainers.score_records import with_record
from trainers.training_log import TrainingLog


def keep_scores(directory, model, evaluation, config, data, made):
    """Adds an entry, or takes the place of that of the same evaluation.

    Args:
        directory: ModelDirectory.
        model: Transformer, its model.
        evaluation: Evaluation.
        config: TransformerConfig it was decoded with.
        data: dict of dataset, source_language, target_language and split.
        made: dict of command, hardware and date.

    Raises:
        InputError: scores.json is damaged or cannot be written.
    """
    record = {
        **evaluation.record(),
        **data,
        "beam_size": config.beam_size,
        "alpha": config.alpha,
        "length_penalty": config.length_penalty,
        **_facts(directory, model),
        **made,
    }
    directory.write_scores(with_record(directory.read_scores(), record))


def _facts(directory, model):
    log = TrainingLog(directory)
    step = log.weights.get("step")
    if step is None:
        # Trained before there was a log.
        steps = Checkpoints(directory.checkpoints_path, 1).steps()
        step = max(steps, default=None)
    return {
        "step": step,
        "weights": log.weights.get("made_from"),
        "parameters": model.count_params(),
        "training": log.summary(),
    }
