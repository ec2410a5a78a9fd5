"""Flags that select a corpus, and functions that open it."""

import concurrent.futures
import contextlib
import functools
import multiprocessing
import typing
from collections.abc import Callable, Iterator

from absl import flags

from export.common import command, processes
from export.common.errors import InputError
from export.common.parallel import map_in_threads
from trainers.data import dataset_kind, open_corpus, validate_kind
from trainers.data.corpus import Corpus, EvaluationSet
from trainers.data.manifest import NEW_CHOICES, SCORE_CHOICES, DataSource

FLAGS = flags.FLAGS
# The choices with flags of all commands that prepare data.
PREPARATION_CHOICES = (
    *("normalization", "byte_fallback"),
    *(name for name in NEW_CHOICES if name not in SCORE_CHOICES),
)

flags.DEFINE_string(
    "dataset",
    "tatoeba-en-fr",
    "Corpus: tatoeba-en-fr (fetched from the package index), text:PREFIX "
    "(files PREFIX.train.en, PREFIX.train.de and so on, .gz too; with "
    "text:FOLDER/ FOLDER/train.en and so on), tmx:FILE, tsv:FILE, jsonl:FILE, "
    "parquet:FILE or hf:NAME (a Hugging Face data set), with columns as in "
    "tsv:FILE#1,2 (see docs/data.md), mixture:FILE (a TOML file that "
    "names corpora of several languages, see docs/languages.md), trees:PREFIX "
    "(files of trees PREFIX.train.ptb and so on, .gz too; trees:GOLD*4,SILVER "
    "mixes two treebanks), or a translation set of TensorFlow Datasets such as "
    "wmt14_translate/de-en.",
)
flags.DEFINE_string(
    "source_language", None, "Language to translate from, such as en."
)
flags.DEFINE_string(
    "target_language", None, "Language to translate into, such as de."
)
flags.DEFINE_string("data_dir", None, "Where TensorFlow Datasets keeps data.")
flags.DEFINE_string(
    "manual_dir", None, "Folder of downloaded files for TensorFlow Datasets."
)
flags.DEFINE_integer(
    "workers",
    None,
    "Number of threads that tokenize, or of processes that translate in "
    "trainers.synthesize; by default the number of processors.",
    lower_bound=1,
)


def define_preparation_flags() -> None:
    """Defines the `preparation_choices` and --max_unknown."""
    # Both load TensorFlow.
    from trainers.data.preparation import COPY_RATE, MAX_UNKNOWN, NOISE
    from trainers.data.vocabulary import NORMALIZATIONS

    flags.DEFINE_enum(
        "normalization",
        "auto",
        NORMALIZATIONS,
        "Unicode normalization of the text, stored in the vocabulary. auto is "
        "nmt_nfkc, or nmt_nfc if nmt_nfkc would change more than a few "
        "characters of the text. See docs/data.md.",
    )
    flags.DEFINE_enum(
        "byte_fallback",
        "auto",
        ("auto", "on", "off"),
        "Whether a new vocabulary spells characters without a token as bytes, "
        "so that none is unknown; auto is on from 8,000 tokens, for text. See "
        "docs/characters.md.",
    )
    flags.DEFINE_float(
        "copy_rate",
        COPY_RATE,
        "Share of training pairs to which text is added that is copied: emoji, "
        "rare letters, numbers, addresses, foreign words. Without effect if "
        "the vocabulary has no bytes. See docs/characters.md.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    flags.DEFINE_string(
        "noise",
        NOISE,
        "Shares of training pairs with each kind of noise, which a translator "
        "then understands: upper, title and lower case, typos, punctuation, "
        "quotes, and words alone; off for none, as always for mixtures and "
        "trees. See docs/noise.md.",
    )
    flags.DEFINE_integer(
        "segmentations",
        1,
        "Number of random segmentations of each training pair into tokens, BPE "
        "dropout; an epoch has all of them, and takes as much longer. 1 is the "
        "usual segmentation. See docs/data.md.",
        lower_bound=1,
        upper_bound=1000,
    )
    flags.DEFINE_float(
        "max_ratio",
        0.0,
        "Maximum ratio of the tokens of both sides; other training pairs are "
        "skipped. 0 is no limit.",
        lower_bound=0.0,
    )
    flags.register_validator(
        "max_ratio",
        lambda ratio: ratio == 0 or ratio >= 1,
        "Expected at least 1, or 0 for no limit.",
    )
    flags.DEFINE_boolean(
        "drop_duplicates", False, "Skip training pairs that occurred before."
    )
    flags.DEFINE_boolean(
        "drop_near_duplicates",
        False,
        "Skip training pairs that occurred before but for case, punctuation "
        "and spaces.",
    )
    flags.DEFINE_boolean(
        "check_languages",
        False,
        "Skip training pairs with a side that is clearly in another language; "
        "needs pip install 'py3langid>=0.4'.",
    )
    flags.DEFINE_string(
        "filters",
        command.OFF,
        "Rules that remove training pairs, with commas between: letters, "
        "numbers, identical, markup, word_length, equal, each alone or with "
        "its threshold, as in letters=0.5; off for none. See docs/data.md.",
    )
    flags.DEFINE_float(
        "max_unknown",
        MAX_UNKNOWN,
        "Maximum share of unknown tokens on a side; 1 accepts any text.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    command.mark_flags_as_finite("copy_rate", "max_ratio", "max_unknown")


def preparation_choices(
    corpus: Corpus, source: DataSource | None = None
) -> dict[str, typing.Any]:
    """Returns the flags that determine prepared data of a Corpus.

    Of flags that are not given, those of a DataSource replace the defaults.
    """
    choices = {
        name: FLAGS[name].value
        if source is None or FLAGS[name].present
        else getattr(source, name)
        for name in PREPARATION_CHOICES
    }
    takes_noise = corpus.kind == "text" and not corpus.directions
    if not (takes_noise or FLAGS["noise"].present):
        choices["noise"] = command.OFF
    return choices


def workers() -> int:
    """Returns the number of threads or worker processes."""
    return FLAGS.workers or processes.processor_count()


def thread_map() -> contextlib.AbstractContextManager[Callable[..., Iterator]]:
    """Returns the `workers` of `prepare_corpus` for threads."""
    return contextlib.nullcontext(
        functools.partial(map_in_threads, num_threads=workers())
    )


def corpus(
    kind: str | None = None, defaults: dict[str, str] | None = None
) -> Corpus:
    """Opens the corpus that the flags select, and prints its name.

    `defaults` replace the flags' own for dataset, source_language and
    target_language. InputError unless it is of the `kind` "text" or "trees",
    if one is given.
    """
    return _open(*_corpus_arguments(kind, defaults or {}))


def read_evaluation_set_in_subprocess(
    split: str,
) -> tuple[tuple[str, str], EvaluationSet]:
    """Returns (languages, EvaluationSet), read in a subprocess.

    Only the subprocess loads TensorFlow, if at all.
    """
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, spawn) as pool:
        arguments = _corpus_arguments("text", {})
        return pool.submit(_read_evaluation_set, split, *arguments).result()


def _corpus_arguments(kind, defaults):
    """Returns the arguments for `open_corpus`."""

    def value(name):
        flag = FLAGS[name]
        is_default = not flag.present and name in defaults
        return defaults[name] if is_default else flag.value

    dataset = value("dataset")
    # As `PretrainedModel` writes it.
    if dataset.startswith("imported from "):
        raise InputError(
            f"The model is {dataset}, and its data are unknown: give --dataset."
        )
    # Before opening, which fails for the languages of another kind.
    if kind:
        validate_kind(dataset, dataset_kind(dataset), kind)
    # Its file has the languages.
    if dataset.startswith("mixture:"):
        defaults = {}
    languages = value("source_language"), value("target_language")
    return dataset, *languages, FLAGS.data_dir, FLAGS.manual_dir


def _read_evaluation_set(split, *arguments):
    opened = _open(*arguments)
    languages = opened.source_language, opened.target_language
    return languages, opened.evaluation_set(split)


def _open(*arguments):
    opened = open_corpus(*arguments)
    print(
        f"Data: {opened.name}, {opened.source_language} to "
        f"{opened.target_language}, splits {', '.join(opened.splits())}.",
        flush=True,
    )
    if opened.attribution:
        print(opened.attribution, flush=True)
    return opened
