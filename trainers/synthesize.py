"""Makes training pairs by translation: `python -m trainers.synthesize`.

Translates --text=FILE, or a side of --dataset, with --model, or several as an
ensemble, into pairs that --dataset=text:OUTPUT_DIR/ reads.

  --direction=forward   lines are sources, for distillation (Kim and Rush 2016)
  --direction=backward  lines are targets, for back-translation (Sennrich et al.
                        2016) by a model from target to source

--source_language and --target_language are the languages of the pairs.
Finished shards of lines are kept, and the same command resumes. The pairs
depend only on lines, models and flags.
"""

import dataclasses
import functools

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.lines.files import join_lines
from export.translators import search_flags
from export.translators.batches import BATCH_TOKENS
from trainers.data import dataset_flags
from trainers.data.corpus import validate_direction, validate_language_code
from trainers.scores import bleu_tokenizers
from trainers.synthesis import workers
from trainers.synthesis.job import format_counts, synthesize
from trainers.synthesis.models import (
    SynthesisOptions,
    hash_model_files,
    validate_model_direction,
)
from trainers.synthesis.shards import corpus_source, text_source

FLAGS = flags.FLAGS
# Shows the flags of these modules in --help.
for module in (dataset_flags, bleu_tokenizers):
    flags.adopt_module_key_flags(module)
search_flags.define_search()
search_flags.define_sampling()

flags.DEFINE_string(
    "text", None, "File of lines to translate, .gz too, or its URL."
)
flags.DEFINE_string("split", "train", "Of --dataset: train, dev or test.")
flags.DEFINE_multi_string(
    "model", None, "Model directory; repeat it for an ensemble.", required=True
)
flags.DEFINE_string(
    "output_dir",
    None,
    "New folder for the pairs, or its URL that fsspec opens.",
    required=True,
)
flags.DEFINE_enum(
    "direction",
    "forward",
    ["forward", "backward"],
    "Whether the lines are the sources of the pairs, or their targets.",
)
flags.DEFINE_enum(
    "decoding", "beam", ["beam", "sample"], "Beam search, or sampling."
)
flags.DEFINE_integer(
    "best_of",
    1,
    "With --dataset: number of translations of which the one most like the "
    "reference is taken.",
    lower_bound=1,
)
flags.DEFINE_enum(
    "metric",
    "bleu",
    ["bleu", "chrf"],
    "How --best_of compares: sentence BLEU, or chrF.",
)
flags.DEFINE_integer("seed", 1, "Line N, from 0, has seed + N.", lower_bound=0)
flags.DEFINE_string("tag", "", 'Word put before sources, such as "<bt>".')
flags.DEFINE_float(
    "word_drop",
    0.0,
    "Probability with which a word of a source is dropped.",
    lower_bound=0.0,
    upper_bound=1.0,
)
flags.DEFINE_integer(
    "word_swap",
    0,
    "Positions by which a word of a source moves at most.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "max_pieces",
    256,
    "Longer lines are filtered out; in tokens, the end token included.",
    lower_bound=2,
)
flags.DEFINE_float(
    "max_ratio",
    None,
    "Pairs are filtered out if one side has more than this many times the "
    "tokens of the other.",
    lower_bound=1.0,
)
flags.DEFINE_float(
    "min_score",
    None,
    "Pairs are filtered out if the translation has a lower log-probability "
    "per token, such as -1.5; as in export.score, the end token included.",
    upper_bound=0.0,
)
flags.DEFINE_boolean("keep_duplicates", False, "Keep repeated pairs.")
flags.DEFINE_integer(
    "shard_lines",
    1000,
    "Lines of a shard: what an interruption loses of each worker's work.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "batch_tokens",
    BATCH_TOKENS,
    "Source tokens in a batch, padding included.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "threads",
    1,
    "Threads of each worker; another number may change the last bits of a "
    "score.",
    lower_bound=1,
)
flags.DEFINE_string(
    "ray",
    None,
    "Translate on a Ray cluster: auto for the one that this machine is part "
    "of, or host:port of its head.",
)
flags.DEFINE_float(
    "ray_gpus",
    0.0,
    "GPUs that Ray reserves for a shard, such as 1; Ray then starts a process "
    "for each shard, so give many --shard_lines.",
    lower_bound=0.0,
)
command.mark_flags_as_finite("word_drop", "max_ratio", "min_score", "ray_gpus")


def main(arguments):
    """Translates and filters; prints how to train on the pairs."""
    del arguments
    source, languages = _source()
    options = _options(*languages)
    models = tuple(hash_model_files(path) for path in FLAGS.model)
    for path in FLAGS.model:
        validate_model_direction(path, *options.model_languages)
    if FLAGS.ray is None:
        run = functools.partial(
            workers.run_local, num_workers=dataset_flags.workers()
        )
    else:
        run = functools.partial(
            workers.run_on_ray, address=FLAGS.ray, gpus=FLAGS.ray_gpus
        )
    manifest = synthesize(FLAGS.output_dir, source, models, options, run)
    print(f"{FLAGS.output_dir}: {format_counts(manifest.counts)}.")
    command.print_next(
        command.command_line(
            *("trainers.wmt", f"--dataset=text:{FLAGS.output_dir}/"),
            f"--source_language={options.source_language}",
            f"--target_language={options.target_language}",
        )
    )


def _source():
    """Returns the LineSource and both language codes."""
    if (FLAGS.text is None) != FLAGS["dataset"].present:
        raise InputError(
            "Give either --text=FILE or --dataset, whose lines are translated."
        )
    if FLAGS.text is None:
        corpus = dataset_flags.corpus()
        if corpus.kind != "text":
            raise InputError(
                f"{corpus.name} holds trees; give a corpus of text."
            )
        source = corpus_source(corpus, FLAGS.split, FLAGS.direction)
        return source, (corpus.source_language, corpus.target_language)
    languages = FLAGS.source_language, FLAGS.target_language
    if None in languages:
        raise InputError(
            "--text needs --source_language and --target_language of the pairs."
        )
    for code in languages:
        validate_language_code(code, "give the pairs' languages.")
    validate_direction(f"--text={FLAGS.text}", *languages, "en, de and so on")
    return text_source(FLAGS.text), languages


def _options(source_language, target_language):
    _validate_flags()
    tokenize = "13a"
    if FLAGS.best_of > 1 and FLAGS.metric == "bleu":
        answers = {"forward": target_language, "backward": source_language}
        tokenize = bleu_tokenizers.choose_tokenizer(
            answers[FLAGS.direction], FLAGS.tokenize
        )
    values = {
        field.name: FLAGS[field.name].value
        for field in dataclasses.fields(SynthesisOptions)
    }
    values |= {
        "source_language": source_language,
        "target_language": target_language,
        "tokenize": tokenize,
    }
    return SynthesisOptions(**values)


def _validate_flags():
    """Raises InputError for flags without effect."""
    needed = {}
    if FLAGS.decoding == "beam":
        needed |= dict.fromkeys(search_flags.SAMPLING, "--decoding=sample")
    else:
        names = ("beam_size", "alpha", "stop_criterion")
        needed |= dict.fromkeys(names, "--decoding=beam")
    if FLAGS.best_of == 1:
        needed |= dict.fromkeys(("metric", "tokenize"), "--best_of above 1")
    elif FLAGS.text is not None:
        needed["best_of"] = "the references of a --dataset"
    if FLAGS.ray is None:
        needed["ray_gpus"] = "--ray"
    else:
        needed["workers"] = "this machine, not --ray"
    for name, what in needed.items():
        if FLAGS[name].present:
            raise InputError(f"--{name} needs {what}; omit it.")
    if FLAGS.tag != join_lines(FLAGS.tag).strip():
        raise InputError(
            f"--tag={FLAGS.tag!r} must be a word without space around it."
        )


if __name__ == "__main__":
    command.run(main, may_be_empty=("tag",))
