"""From a corpus to a model directory with a vocabulary, and data as ids."""

import dataclasses
import itertools
import sys

from tqdm import tqdm

import keras_transformer as kt
from export.errors import InputError
from export.model_directory import ModelDirectory
from keras_transformer.tokenizer import Tokenizer
from trainers.corpora import EvaluationSet
from trainers.token_pairs import TokenPairs, tokenise_pairs
from trainers.vocabulary import train_vocabulary

# What may change from one run to the next in the same model directory: it
# decides how long to train and how to decode, not which model this is.
_MAY_CHANGE = (
    "train_steps",
    "average_checkpoints",
    "beam_size",
    "alpha",
    "length_penalty",
    "max_output_extra",
)


@dataclasses.dataclass(frozen=True)
class Prepared:
    """All that training needs.

    Attributes:
        directory: ModelDirectory, with configuration and vocabulary in it.
        config: TransformerConfig.
        tokenizer: Tokenizer.
        training: TokenPairs.
        dev: TokenPairs, or None where the corpus has no dev split.
        test: EvaluationSet, or None where the corpus has no test split.
    """

    directory: ModelDirectory
    config: kt.TransformerConfig
    tokenizer: Tokenizer
    training: TokenPairs
    dev: TokenPairs | None
    test: EvaluationSet | None


def prepare(directory, config, corpus, plan):
    """Claims the model directory, makes the vocabulary, tokenises.

    Args:
        directory: ModelDirectory; new, or of the same training.
        config: TransformerConfig.
        corpus: Corpus.
        plan: TrainingPlan.

    Returns:
        Prepared.

    Raises:
        InputError: the directory is of another training, or the corpus is
            broken or does not fit the vocabulary size.
    """
    _say(
        f"Data: {corpus.name}, {corpus.source_language} to "
        f"{corpus.target_language}, splits {', '.join(corpus.splits())}."
    )
    if corpus.attribution:
        _say(corpus.attribution)
    _refuse_too_few_positions(config, plan)
    # Read before training: what is wrong with the test split should not come
    # out after days of it.
    test = None
    if "test" in corpus.splits():
        test = corpus.evaluation_set("test")
    facts = {
        "dataset": corpus.name,
        "source_language": corpus.source_language,
        "target_language": corpus.target_language,
        "fingerprint": corpus.fingerprint(),
        "seed": plan.seed,
        "max_tokens": plan.max_tokens,
        "shapes": plan.shapes,
    }
    _refuse_other_training(directory, config, facts)
    tokenizer = _tokenizer(directory, config, corpus)
    training = _tokenised("train", corpus, tokenizer, plan)
    dev = None
    if "dev" in corpus.splits():
        dev = _tokenised("dev", corpus, tokenizer, plan)
    # Written when nothing about the corpus can go wrong any more; the
    # configuration last, since it is what claims the directory.
    directory.write_vocabulary(tokenizer.proto)
    directory.write_run(facts)
    directory.write_config(config)
    return Prepared(directory, config, tokenizer, training, dev, test)


def _refuse_too_few_positions(config, plan):
    learned = config.positions == "learned"
    if learned and plan.max_tokens > config.max_positions:
        raise InputError(
            f"Sentences of --max_tokens={plan.max_tokens} pieces do not fit "
            f"the learned table of max_positions={config.max_positions}; "
            "lower the one or raise the other."
        )


def _refuse_other_training(directory, config, facts):
    if not directory.config_path.exists():
        return
    old = dataclasses.asdict(directory.read_config())
    old |= directory.read_run()
    new = dataclasses.asdict(config) | facts
    for name, value in new.items():
        if name not in _MAY_CHANGE and old.get(name) != value:
            raise InputError(
                f"{directory.path} holds a training with "
                f"{name}={old.get(name)}, not {value}; use another "
                "--model_dir, or the same flags as before to go on with it."
            )


def _tokenizer(directory, config, corpus):
    if not directory.vocabulary_path.exists():
        _say(f"Training a vocabulary of {config.vocabulary_size:,} pieces.")
        sentences = itertools.chain.from_iterable(corpus.pairs("train"))
        return Tokenizer(train_vocabulary(sentences, config.vocabulary_size))
    tokenizer = directory.read_tokenizer()
    if tokenizer.vocabulary_size != config.vocabulary_size:
        raise InputError(
            f"{directory.vocabulary_path} has {tokenizer.vocabulary_size} "
            f"pieces, not vocabulary_size={config.vocabulary_size}; use "
            f"--set=vocabulary_size={tokenizer.vocabulary_size}."
        )
    return tokenizer


def _tokenised(split, corpus, tokenizer, plan):
    with tqdm(
        desc=f"Tokenising {split}",
        unit=" pairs",
        disable=not sys.stderr.isatty(),
    ) as bar:
        pairs = tokenise_pairs(
            corpus.pairs(split), tokenizer, plan.max_tokens, bar.update
        )
    dropped = f", {pairs.dropped:,} too long" if pairs.dropped else ""
    _say(
        f"{split}: {len(pairs):,} pairs, "
        f"{pairs.target_starts[-1]:,} target tokens{dropped}."
    )
    return pairs


def _say(line):
    print(line, flush=True)
