"""What one training is: its directory, configuration and data."""

import dataclasses

import keras_transformer as kt
from export.common.errors import InputError
from export.model_directory import ModelDirectory
from keras_transformer.config import field_names
from trainers.batches.token_pairs import TokenPairs
from trainers.data.corpus import EvaluationSet, describe_fingerprint_change
from trainers.scores import bleu_tokenizers

# What decides, beside the configuration, which update follows on which.
_PLAN_FACTS = ("seed", "max_tokens", "batching", "shapes", "row_tokens", "ema")
# Of a training that was begun before run.json said so.
_FIRST_TOKENIZER = "13a"


@dataclasses.dataclass(frozen=True)
class TrainingInputs:
    """All that training needs.

    Attributes:
        directory: ModelDirectory, with configuration and vocabulary in it.
        config: TransformerConfig.
        dataset: name of the data set.
        training: TokenPairs.
        dev: TokenPairs, or None where the corpus has no dev split.
        test: EvaluationSet, or None where the corpus has no test split.
    """

    directory: ModelDirectory
    config: kt.TransformerConfig
    dataset: str
    training: TokenPairs
    dev: TokenPairs | None
    test: EvaluationSet | None


def prepare(directory, config, corpus, plan):
    """Opens and checks the data, without writing anything.

    Args:
        directory: ModelDirectory; new, or of the same training.
        config: TransformerConfig.
        corpus: PreparedCorpus.
        plan: TrainingPlan.

    Returns:
        Prepared.

    Raises:
        InputError: the directory is of another training, the data are
            damaged, or do not fit the configuration.
    """
    source = corpus.manifest.source
    validate_same_training(directory, config, source, plan)
    if source.vocabulary_size != config.source_pieces:
        raise InputError(
            f"The data in {corpus.folder} were prepared with "
            f"vocabulary_size={source.vocabulary_size}, not "
            f"{config.source_pieces}; use "
            f"--set=vocabulary_size={source.vocabulary_size}."
        )
    corpus.check()
    limits = {
        "--max_tokens": plan.max_tokens,
        "--batch_tokens": config.batch_tokens,
    }
    training = _pairs(corpus, "train", limits)
    if training is None:
        raise InputError(
            f"{corpus.folder} has no train split; there is nothing to train on."
        )
    dev = _pairs(corpus, "dev", limits)
    for name in (
        "keep_best",
        "patience",
        "dev_bleu_sentences",
        "dev_f1_sentences",
    ):
        if dev is None and getattr(plan, name):
            raise InputError(
                f"{corpus.folder} has no dev split for --{name} to measure; "
                "leave the flag out, or add a dev split."
            )
    return TrainingInputs(
        directory,
        config,
        source.dataset,
        training,
        dev,
        corpus.test_set(),
    )


def choose_tokenizer(plan, directory, language):
    """Settles which of sacreBLEU's tokenisers a training is scored with.

    A resumed training keeps its own, since a best checkpoint is found by
    comparing BLEU of now with BLEU of then.

    Args:
        plan: TrainingPlan, as the flags have it.
        directory: ModelDirectory.
        language: code of the target language.

    Returns:
        TrainingPlan whose `tokenize` is a name.

    Raises:
        InputError: the one asked for cannot be used here.
    """
    asked = plan.tokenize
    if asked is None and directory.config_path.exists():
        asked = directory.read_run().get("tokenize", _FIRST_TOKENIZER)
    name = bleu_tokenizers.choose(language, asked)
    return dataclasses.replace(plan, tokenize=name)


def write_run_files(directory, config, corpus, plan):
    """Writes what makes a folder this training's model directory.

    Args:
        directory: ModelDirectory; new, or of the same training.
        config: TransformerConfig.
        corpus: PreparedCorpus.
        plan: TrainingPlan.

    Raises:
        InputError: another training claimed it meanwhile, or the system
            refused to write.
    """
    validate_same_training(directory, config, corpus.manifest.source, plan)
    # The configuration last, since it is what claims the directory.
    directory.write_vocabulary(corpus.vocabulary)
    if corpus.symbols is not None:
        directory.write_symbols(corpus.symbols.to_json())
    directory.write_run(_facts(corpus.manifest.source, plan))
    directory.write_config(config)


def validate_positions(config, plan):
    """Refuses sentences that a table of learned positions has no room for.

    Args:
        config: TransformerConfig.
        plan: TrainingPlan.

    Raises:
        InputError: there may be longer ones.
    """
    learned = config.positions == "learned"
    if learned and plan.max_tokens > config.max_positions:
        raise InputError(
            f"Sentences of --max_tokens={plan.max_tokens} pieces do not fit "
            f"the learned table of max_positions={config.max_positions}; "
            "lower the one or raise the other."
        )


def validate_same_training(directory, config, source, plan):
    """Refuses a directory whose training is not the one asked for.

    Args:
        directory: ModelDirectory.
        config: TransformerConfig.
        source: Source of the prepared data.
        plan: TrainingPlan.

    Raises:
        InputError: saying what differs.
    """
    if not directory.config_path.exists():
        return
    old = dataclasses.asdict(directory.read_config())
    old |= {"tokenize": _FIRST_TOKENIZER} | directory.read_run()
    new = dataclasses.asdict(config) | _facts(source, plan)
    may_change = field_names("ending", "decoding")
    for name, value in new.items():
        if name not in may_change and old.get(name) != value:
            if name == "fingerprint":
                change = describe_fingerprint_change(str(old.get(name)), value)
                raise InputError(
                    f"The data of the training in {directory.path} changed "
                    f"since it began: {change}; restore them to go on with "
                    "it, or train on them in another --model_dir."
                )
            raise InputError(
                f"{directory.path} holds a training with "
                f"{name}={old.get(name)}, not {value}; use another "
                "--model_dir, or the same flags as before to go on with it."
            )


def _facts(source, plan):
    return {
        "dataset": source.dataset,
        "source_language": source.source_language,
        "target_language": source.target_language,
        "fingerprint": source.fingerprint,
        **{name: getattr(plan, name) for name in _PLAN_FACTS},
        # What is longer is not there, however it was left out.
        "max_tokens": min(plan.max_tokens, source.max_tokens),
        "tokenize": plan.tokenize,
    }


def _pairs(corpus, split, limits):
    pairs = corpus.pairs(split)
    if pairs is None:
        return None
    flag = min(limits, key=limits.get)
    max_tokens = limits[flag]
    kept = pairs.filter_by_length(max_tokens)
    manifest = corpus.manifest
    left_out = "".join(
        f", {count:,} pairs of more than {limit:,} left out"
        for count, limit in (
            (manifest.splits[split].dropped, manifest.source.max_tokens),
            (kept.dropped, max_tokens),
        )
        if count
    )
    print(
        f"{split}: {len(kept):,} pairs, {kept.target_lengths.sum():,} target "
        f"tokens{left_out}.",
        flush=True,
    )
    if not len(kept):
        raise InputError(
            f"No sentence pair of {split} is left ({kept.dropped:,} have more "
            f"than {flag}={max_tokens} pieces on a side); raise it, or "
            "check the data set."
        )
    return kept
