"""The entries of scores.json."""

from trainers.checkpoints import Checkpoints
from trainers.provenance import TrainingLog

# Two entries with the same of these are of the same evaluation.
_IDENTITY = (
    "metric",
    "signature",
    "dataset",
    "split",
    "sentences",
    "references",
    "reference_length",
    "beam_size",
    "alpha",
    "length_penalty",
    "step",
    "weights",
)


def with_record(records, record):
    """Adds an entry, in the place of an earlier one of the same evaluation.

    Where that has the same score, what the new one does not tell is kept
    (perplexity, say).

    Args:
        records: list of dict.
        record: dict.

    Returns:
        The new list.
    """
    for place, earlier in enumerate(records):
        if _is_same(earlier, record):
            if earlier["score"] == record["score"]:
                record = {**earlier, **record}
            return [*records[:place], record, *records[place + 1 :]]
    return [*records, record]


def _is_same(earlier, record):
    # An entry of an older version has not all of them.
    return all(earlier[n] == record.get(n) for n in _IDENTITY if n in earlier)


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
