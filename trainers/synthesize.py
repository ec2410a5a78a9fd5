"""Makes training text by translating: `python -m trainers.synthesize`.

--text=FILE, or a side of --dataset, is translated by --model, or by several
that decode together, into pairs that --dataset=text:OUTPUT_DIR/ then reads.

  --way=forward   the lines are sources, the answers targets: for a student
                  that learns what its teachers say (Kim and Rush 2016)
  --way=backward  the lines are targets, the answers sources, by models that
                  translate the other way: back-translation (Sennrich et al.
                  2016)

--source_language and --target_language are those of the pairs.

The answers are found by a search, or drawn (--decoding=sample); of a corpus'
lines --best_of=N takes of N answers the one most like the reference.
--word_drop, --word_swap and --tag change the sources. What is left out is
counted.

Work is cut into shards of lines; what is done is kept, and the same command
goes on after any end. The pairs depend on lines, models and flags, not on how
many --workers there are or which of them died. --ray has the work done on a
Ray cluster.
"""

import functools

from absl import flags

from export import command
from export.errors import InputError
from export.lines.files import join_lines
from export.translators import sampling_flags, search_flags
from export.translators.batches import BATCH_TOKENS
from trainers import dataset_flags
from trainers.data.corpus import validate_direction, validate_language_code
from trainers.scores import bleu_tokenizers
from trainers.synthesis import local_workers, ray_workers
from trainers.synthesis.assembly import in_words
from trainers.synthesis.job import synthesize
from trainers.synthesis.lines import CorpusSide, TextFile
from trainers.synthesis.models import read_model, refuse_other_direction
from trainers.synthesis.rules import Rules

FLAGS = flags.FLAGS
# Or --help would not show them.
for module in (dataset_flags, search_flags, sampling_flags, bleu_tokenizers):
    flags.adopt_module_key_flags(module)

flags.DEFINE_string(
    "text",
    None,
    "File of lines to translate, .gz too, or its URL; or give --dataset.",
)
flags.DEFINE_string("split", "train", "Of --dataset: train, dev or test.")
flags.DEFINE_multi_string(
    "model",
    None,
    "Model directory; given several times, models that decode together.",
    required=True,
)
flags.DEFINE_string(
    "output_dir",
    None,
    "Where the pairs go, a new folder, or one's URL that fsspec opens.",
    required=True,
)
flags.DEFINE_enum(
    "way",
    "forward",
    ["forward", "backward"],
    "Whether the lines are the sources of the pairs, or their targets.",
)
flags.DEFINE_enum(
    "decoding", "beam", ["beam", "sample"], "Search, or draw answers."
)
flags.DEFINE_integer(
    "best_of",
    1,
    "Of a corpus' lines: answers to find or draw, of which the one most like "
    "the reference is taken.",
    lower_bound=1,
)
flags.DEFINE_enum(
    "metric",
    "bleu",
    ["bleu", "chrf"],
    "What --best_of compares by: sentence BLEU, or chrF.",
)
flags.DEFINE_integer(
    "seed",
    1,
    "Of the first line; the Nth, from 0, has seed + N.",
    lower_bound=0,
)
flags.DEFINE_string("tag", "", 'Word put in front of sources, such as "<bt>".')
flags.DEFINE_float(
    "word_drop",
    0.0,
    "Probability that a word of a source is left out.",
    lower_bound=0.0,
    upper_bound=1.0,
)
flags.DEFINE_integer(
    "word_swap",
    0,
    "Places that a word of a source moves at most.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "max_pieces",
    256,
    "Lines of more pieces, the end counted, are left out.",
    lower_bound=2,
)
flags.DEFINE_float(
    "max_ratio",
    None,
    "Pairs of which one side has more than so many times the pieces of the "
    "other are left out.",
    lower_bound=1.0,
)
flags.DEFINE_float(
    "min_score",
    None,
    "Pairs whose answer has a lower log-probability a piece are left out, "
    "such as -1.5; as export.score counts it, the end's included.",
    upper_bound=0.0,
)
flags.DEFINE_boolean(
    "keep_duplicates", False, "Keep pairs that are there already."
)
flags.DEFINE_integer(
    "shard_lines",
    1000,
    "Lines of a shard: what an end may lose of each worker's work.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "batch_tokens",
    BATCH_TOKENS,
    "Source pieces in a batch, padding counted.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "threads",
    1,
    "That each worker computes with; another number may give other last bits "
    "of a score.",
    lower_bound=1,
)
flags.DEFINE_string(
    "ray",
    None,
    "Work on a Ray cluster: auto for the one that this machine is part of, or "
    "host:port of its head.",
)
flags.DEFINE_float(
    "ray_gpus",
    0.0,
    "GPUs that Ray sets aside for a shard, such as 1; each shard is then done "
    "by a new process, so give many --shard_lines.",
    lower_bound=0.0,
)
command.require_finite("word_drop", "max_ratio", "min_score", "ray_gpus")


def main(arguments):
    """Translates, filters, and says how to train with it."""
    del arguments
    source, languages = _source()
    rules = _rules(source, *languages)
    models = tuple(read_model(path) for path in FLAGS.model)
    for path in FLAGS.model:
        refuse_other_direction(path, *rules.direction)
    manifest = synthesize(FLAGS.output_dir, source, models, rules, _workers())
    print(f"{FLAGS.output_dir}: {in_words(manifest.counts)}.")
    command.print_next(
        command.command_line(
            *("trainers.wmt", f"--dataset=text:{FLAGS.output_dir}/"),
            f"--source_language={rules.source_language}",
            f"--target_language={rules.target_language}",
        )
    )


def _source():
    """Returns TextFile or CorpusSide, and both languages' codes."""
    if (FLAGS.text is None) != FLAGS["dataset"].present:
        raise InputError(
            "Give either --text=FILE or --dataset, whose lines are translated."
        )
    if FLAGS.text is None:
        corpus = dataset_flags.corpus()
        if corpus.kind != "text":
            raise InputError(
                f"{corpus.name} holds trees, which are not translated; give "
                "a corpus of text."
            )
        side = CorpusSide(corpus, FLAGS.split, FLAGS.way)
        return side, (corpus.source_language, corpus.target_language)
    languages = FLAGS.source_language, FLAGS.target_language
    if None in languages:
        raise InputError(
            "--text needs --source_language and --target_language, those of "
            "the pairs to make, such as en and de."
        )
    for code in languages:
        validate_language_code(code, "give the pairs' languages.")
    validate_direction(f"--text={FLAGS.text}", *languages, "en, de and so on")
    return TextFile(FLAGS.text), languages


_COPIED = (
    *("way", "decoding", "best_of", "metric", "seed", "tag", "word_drop"),
    *("word_swap", "max_pieces", "max_ratio", "min_score", "keep_duplicates"),
    *("shard_lines", "batch_tokens", "threads"),
    *search_flags.NAMES,
    *sampling_flags.NAMES,
)


def _rules(source, source_language, target_language):
    _refuse_idle_flags(source)
    tokenize = "13a"
    if FLAGS.best_of > 1 and FLAGS.metric == "bleu":
        answers = {"forward": target_language, "backward": source_language}
        tokenize = bleu_tokenizers.choose(answers[FLAGS.way], FLAGS.tokenize)
    return Rules(
        source_language=source_language,
        target_language=target_language,
        tokenize=tokenize,
        **{name: FLAGS[name].value for name in _COPIED},
    )


def _refuse_idle_flags(source):
    """Refuses flags that would change nothing."""
    if FLAGS.best_of > 1 and not source.has_references:
        raise InputError(
            "--best_of compares with references, which --text has not; give "
            "a corpus as --dataset, or leave it out."
        )
    without = {
        "beam": (sampling_flags.NAMES, "of --decoding=sample"),
        "sample": (("beam_size", "alpha", "stop"), "of --decoding=beam"),
    }
    names, whose = without[FLAGS.decoding]
    needs_several = ("metric", "tokenize") if FLAGS.best_of == 1 else ()
    for name in (*names, *needs_several):
        if FLAGS[name].present:
            reason = whose if name in names else "of --best_of above 1"
            raise InputError(f"--{name} is {reason}; leave it out.")
    if FLAGS.tag != join_lines(FLAGS.tag).strip():
        raise InputError(
            f"--tag={FLAGS.tag!r} must be a word without space around it."
        )


def _workers():
    if FLAGS.ray is None:
        if FLAGS.ray_gpus:
            raise InputError("--ray_gpus is of --ray; leave it out.")
        count = dataset_flags.workers()
        return functools.partial(local_workers.run, count=count)
    if FLAGS["workers"].present:
        raise InputError(
            "--workers are of this machine, and --ray works on as many "
            "processors as the cluster has: leave out one of them."
        )
    return functools.partial(
        ray_workers.run, address=FLAGS.ray, gpus=FLAGS.ray_gpus
    )


if __name__ == "__main__":
    command.run(main)
