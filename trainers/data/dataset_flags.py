"""Flags that select a corpus, and functions that open it."""

import concurrent.futures
import multiprocessing

from absl import flags

from export.common import command, processes
from trainers.data import open_corpus

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "dataset",
    "tatoeba-en-fr",
    "Corpus: tatoeba-en-fr (fetched from the package index), text:PREFIX "
    "(files PREFIX.train.en, PREFIX.train.de and so on, .gz too; with "
    "text:FOLDER/ FOLDER/train.en and so on), trees:PREFIX (files of trees "
    "PREFIX.train.ptb and so on, .gz too; trees:GOLD*4,SILVER mixes those of "
    "two prefixes), or a translation set of TensorFlow Datasets such as "
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
    "Number of threads that tokenize, or of processes of trainers.synthesize "
    "that translate; by default the number of processors.",
    lower_bound=1,
)


def define_preparation_flags():
    """Defines --normalization and --max_unknown."""
    # Both load TensorFlow.
    from trainers.data.preparation import MAX_UNKNOWN
    from trainers.data.vocabulary import NORMALIZATIONS

    flags.DEFINE_enum(
        "normalization",
        "auto",
        NORMALIZATIONS,
        "How the text is normalized before a vocabulary is trained on it; the "
        "vocabulary keeps it. auto is nmt_nfkc, or nmt_nfc where that would "
        "change more than a few characters of the text. See docs/data.md.",
    )
    flags.DEFINE_float(
        "max_unknown",
        MAX_UNKNOWN,
        "Highest share of a side's tokens in a split that may be unknown to "
        "the vocabulary; 1 takes any text.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    command.mark_flags_as_finite("max_unknown")


def workers():
    """Returns the number of threads or worker processes."""
    return FLAGS.workers or processes.processor_count()


def corpus(usual=None):
    """Opens the corpus that the flags select, and prints its name.

    `usual` maps dataset, source_language and target_language to defaults that
    replace those of the flags.
    """
    return _open(_arguments(usual or {}))


def read_evaluation_set_in_subprocess(split):
    """Returns (target language, EvaluationSet), read in a subprocess.

    Only the subprocess loads TensorFlow, if at all.
    """
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, spawn) as pool:
        return pool.submit(_read, _arguments({}), split).result()


def _arguments(usual):
    names = ("dataset", "source_language", "target_language")
    given = {name: FLAGS[name].value for name in names if FLAGS[name].present}
    defaults = {name: FLAGS[name].default for name in names}
    chosen = {**defaults, **usual, **given}
    return (*map(chosen.get, names), FLAGS.data_dir, FLAGS.manual_dir)


def _read(arguments, split):
    opened = _open(arguments)
    return opened.target_language, opened.evaluation_set(split)


def _open(arguments):
    opened = open_corpus(*arguments)
    print(
        f"Data: {opened.name}, {opened.source_language} to "
        f"{opened.target_language}, splits {', '.join(opened.splits())}.",
        flush=True,
    )
    if opened.attribution:
        print(opened.attribution, flush=True)
    return opened
