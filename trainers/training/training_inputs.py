"""Loads and validates the data and run files of a training."""

import dataclasses
import functools
import typing

import keras_transformer as kt
from export.common.errors import InputError
from export.model_directory import ModelDirectory
from export.translators.languages import SEVERAL_LANGUAGES
from keras_transformer.config import field_names
from trainers.batches import PairGroups
from trainers.batches.token_pairs import TokenPairs
from trainers.data.corpus import EvaluationSet, describe_fingerprint_change
from trainers.data.manifest import (
    NEW_CHOICES,
    DataSource,
    default_choices,
    is_dev,
)
from trainers.data.prepared_corpus import PreparedCorpus
from trainers.scores import bleu_tokenizers

if typing.TYPE_CHECKING:
    from trainers.training.training_options import TrainingOptions

# Flags that need a dev split, unless they are 0.
DEV_FLAGS = (
    *("keep_best", "patience", "dev_bleu_sentences", "dev_f1_sentences"),
    *("attention_steps", "sample_minutes"),
)


@dataclasses.dataclass(frozen=True)
class TrainingInputs:
    """Inputs of a training; dev and test are None if missing.

    `dev` has all pairs of `dev_by_direction`: of a mixture the dev split of
    each (source language, target language), otherwise that of ().
    """

    directory: ModelDirectory
    config: kt.TransformerConfig
    training: PairGroups
    dev: TokenPairs | None
    test: EvaluationSet | None
    dev_by_direction: dict[tuple[str, ...], TokenPairs]


def load_inputs(
    directory: ModelDirectory,
    config: kt.TransformerConfig,
    corpus: PreparedCorpus,
    options: "TrainingOptions",
) -> TrainingInputs:
    """Returns validated inputs, without writing anything.

    InputError if the data are damaged or do not fit the configuration.
    """
    source = corpus.manifest.source
    if source.vocabulary_size != config.encoder_vocabulary_size:
        raise InputError(
            f"The data in {corpus.folder} were prepared with "
            f"vocabulary_size={source.vocabulary_size}, not "
            f"{config.encoder_vocabulary_size}; use "
            f"--set=vocabulary_size={source.vocabulary_size}."
        )
    limits = {
        "--max_tokens": options.max_tokens,
        "--batch_tokens": config.batch_tokens,
    }
    if "train" not in corpus.manifest.splits:
        raise InputError(
            f"{corpus.folder} has no train split; prepare data that have one."
        )
    training = _group_pairs(corpus, limits)
    dev_by_direction = {
        split.direction: _load_pairs(corpus, name, limits)
        for name, split in corpus.manifest.splits.items()
        if is_dev(name)
    }
    dev = dev_by_direction.get(())
    if dev is None and dev_by_direction:
        pairs: typing.Any = corpus.pairs("dev")
        dev = pairs.filter_by_length(min(limits.values()))
    for name in DEV_FLAGS:
        if dev is None and getattr(options, name):
            raise InputError(
                f"{corpus.folder} has no dev split, which --{name} needs; "
                "drop the flag, or add a dev split."
            )
    test = corpus.test_set()
    corpus.manifest.print_overlaps()
    return TrainingInputs(
        directory, config, training, dev, test, dev_by_direction
    )


def resolve_tokenizer(
    options: "TrainingOptions", directory: ModelDirectory, language: str
) -> "TrainingOptions":
    """Returns the options with sacreBLEU's tokenizer for a target language."""
    # A resumed training keeps its tokenizer: BLEU of its runs is comparable.
    name = options.tokenize
    if name is None and directory.config_path.exists():
        name = directory.read_run().get("tokenize")
    # In a mixture each target language has its own.
    if name is None and language == SEVERAL_LANGUAGES:
        return options
    name = bleu_tokenizers.choose_tokenizer(language, name)
    return dataclasses.replace(options, tokenize=name)


def write_run_files(
    directory: ModelDirectory,
    config: kt.TransformerConfig,
    corpus: PreparedCorpus,
    options: "TrainingOptions",
) -> None:
    """Writes config.json, run.json, vocabulary and symbols."""
    source = corpus.manifest.source
    # Again, now locked: another training may have begun in the meantime.
    validate_same_training(directory, config, source, options)
    directory.write_vocabulary(corpus.vocabulary)
    if corpus.symbols is not None:
        directory.write_symbols(corpus.symbols.to_json())
    directory.write_run(_run_facts(source, options))
    # Last, because config.json marks the directory as used by a training.
    directory.write_config(config)


def validate_positions(
    config: kt.TransformerConfig, options: "TrainingOptions"
) -> None:
    """Raises InputError if --max_tokens exceeds learned positions."""
    learned = config.positions == "learned"
    if learned and options.max_tokens > config.max_positions:
        raise InputError(
            f"Expected --max_tokens of at most max_positions="
            f"{config.max_positions} with positions=learned, got "
            f"{options.max_tokens}; lower the one or raise the other."
        )


def validate_same_training(
    directory: ModelDirectory,
    config: kt.TransformerConfig,
    source: DataSource,
    options: "TrainingOptions",
) -> None:
    """Raises InputError if a directory holds another training."""
    if not directory.config_path.exists():
        return
    # Older trainings lack facts.
    old = default_choices(NEW_CHOICES) | directory.read_run()
    old |= dataclasses.asdict(directory.read_config())
    new = dataclasses.asdict(config) | _run_facts(source, options)
    may_change = field_names("duration", "decoding")
    for name, value in new.items():
        if name in may_change or old.get(name) == value:
            continue
        if name == "fingerprint":
            change = describe_fingerprint_change(str(old.get(name)), value)
            raise InputError(
                f"The data of the training in {directory.path} changed since "
                f"it began: {change}; restore them, or use another --model_dir."
            )
        raise InputError(
            f"{directory.path} holds a training with {name}={old.get(name)}, "
            f"not {value}; use another --model_dir, or the same flags."
        )


def _run_facts(source, options):
    """Returns run.json: values that a resumed training must not change."""
    # Options that change only an update's bits (precision, jit, accumulate,
    # strategy) are in training.json.
    return {
        "dataset": source.dataset,
        "source_language": source.source_language,
        "target_language": source.target_language,
        "fingerprint": source.fingerprint,
        **{name: getattr(source, name) for name in NEW_CHOICES},
        "seed": options.seed,
        # The lower limit decides which pairs are missing.
        "max_tokens": min(options.max_tokens, source.max_tokens),
        "batching": options.batching,
        "shapes": options.shapes,
        "row_tokens": options.row_tokens,
        "ema": options.ema,
        "tokenize": options.tokenize,
    }


def _group_pairs(corpus, limits):
    """Returns the PairGroups of the train split; a single one is loaded."""
    max_tokens = min(limits.values())
    groups = corpus.groups("train")
    counts = [corpus.count_tokens(shards, max_tokens) for shards in groups]
    num_pairs, _, num_target_tokens = sum(counts)
    _report_pairs(corpus, "train", limits, num_pairs, num_target_tokens)

    def load(shards):
        return corpus.load_pairs(shards).filter_by_length(max_tokens)

    loaders, num_tokens = [], []
    for shards, (num_kept, *sides) in zip(groups, counts):
        if num_kept:
            loaders.append(functools.partial(load, shards))
            num_tokens.append(int(max(sides)))
    if len(loaders) == 1:
        pairs = loaders[0]()
        loaders = [lambda: pairs]
    return PairGroups(tuple(loaders), tuple(num_tokens))


def _load_pairs(corpus, split, limits):
    pairs = corpus.pairs(split).filter_by_length(min(limits.values()))
    num_target_tokens = pairs.target_lengths.sum()
    _report_pairs(corpus, split, limits, len(pairs), num_target_tokens)
    return pairs


def _report_pairs(corpus, split, limits, num_pairs, num_target_tokens):
    """Prints counts of pairs; InputError if there are none."""
    flag, max_tokens = min(limits.items(), key=lambda limit: limit[1])
    manifest = corpus.manifest
    facts = manifest.splits[split]
    too_long = (
        (facts.num_too_long, manifest.source.max_tokens),
        (facts.num_pairs - num_pairs, max_tokens),
    )
    skipped = "".join(
        f", {count:,} pairs of more than {limit:,} skipped"
        for count, limit in too_long
        if count
    )
    name = " ".join([split, *facts.direction])
    print(
        f"{name}: {num_pairs:,} pairs, {num_target_tokens:,} target "
        f"tokens{skipped}.",
        flush=True,
    )
    if not num_pairs:
        raise InputError(
            f"No sentence pair of {split} has at most {flag}={max_tokens} "
            "tokens on each side; raise it, or check the data."
        )
