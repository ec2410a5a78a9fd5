"""Flags that name a corpus, and the corpus that they name."""

import concurrent.futures
import multiprocessing

from absl import flags

from export.common import processes
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


def workers():
    """Returns the number of threads or processes."""
    return FLAGS.workers or processes.processor_count()


def corpus(usual=None):
    """Opens the corpus that the flags name, and prints which it is.

    Args:
        usual: dict of dataset, source_language and target_language, the
            defaults of flags that are not given; None for the flags' own.

    Raises:
        InputError: there is no such corpus or direction.
    """
    return _open(_arguments(usual or {}))


def read_evaluation_set_in_subprocess(split):
    """Reads a split in a process of its own, which may load TensorFlow.

    Returns:
        (code of the target language, EvaluationSet).

    Raises:
        InputError: there is no such corpus, direction or split.
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
