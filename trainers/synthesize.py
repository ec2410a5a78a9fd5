"""Makes training pairs by translation: `python -m trainers.synthesize`.

Translates --text=FILE, or a side of --dataset, with --model, or several as an
ensemble, into pairs that --dataset=text:OUTPUT_DIR/ reads.

  --direction=forward   lines are sources, for distillation (Kim and Rush 2016)
  --direction=backward  lines are targets, for back-translation (Sennrich et al.
                        2016) by a model from target to source

--source_language and --target_language are the languages of the pairs; a model
of several languages translates from and into them, so they are its codes.
Finished shards of lines are kept, and the same command resumes. The pairs
depend only on lines, models and flags.
"""

import dataclasses

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
from trainers.synthesis.shards import corpus_source, text_source
from trainers.synthesis.workers import (
    FILES,
    SynthesisOptions,
    hash_model_files,
    validate_model_direction,
)
from trainers.workers import ray_cluster

FLAGS = flags.FLAGS
# Shows the flags of these modules in --help.
for module in (dataset_flags, bleu_tokenizers):
    flags.adopt_module_key_flags(module)
search_flags.define_search()
search_flags.define_sampling()

flags.DEFINE_string(
    "text", None, "File of lines to translate, .gz too, or its URL."
)
flags.DEFINE_string("split", "train", "Split of --dataset: train, dev or test.")
flags.DEFINE_multi_string(
    "model", None, "Model directory; repeat it for an ensemble.", required=True
)
flags.DEFINE_string(
    "output_dir", None, "New folder for the pairs, or its URL.", required=True
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
    "With --dataset: number of translations, of which the one most similar to "
    "the reference is used.",
    lower_bound=1,
)
flags.DEFINE_enum(
    "metric", "bleu", ["bleu", "chrf"], "Similarity of --best_of, by sentence."
)
flags.DEFINE_integer("seed", 1, "Line N, from 0, has seed + N.", lower_bound=0)
flags.DEFINE_string("tag", "", 'Word put before sources, such as "<bt>".')
flags.DEFINE_float(
    "word_drop", 0, "Word drop probability.", lower_bound=0, upper_bound=1
)
flags.DEFINE_integer(
    "word_swap", 0, "Maximum distance that a source word moves.", lower_bound=0
)
flags.DEFINE_integer(
    "max_pieces",
    256,
    "Maximum tokens of a line, the end token included; longer lines are "
    "filtered out.",
    lower_bound=2,
)
flags.DEFINE_float(
    "max_ratio",
    None,
    "Maximum ratio of the tokens of both sides; other pairs are filtered out.",
    lower_bound=1.0,
)
flags.DEFINE_float(
    "min_score",
    None,
    "Minimum log-probability per token of a translation, the end token "
    "included, such as -1.5; other pairs are filtered out.",
    upper_bound=0.0,
)
flags.DEFINE_boolean("keep_duplicates", False, "Keep repeated pairs.")
flags.DEFINE_integer(
    "shard_lines",
    1000,
    "Lines of a shard: the most that each worker loses by an interruption.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "batch_tokens", BATCH_TOKENS, "Source tokens per batch.", lower_bound=1
)
flags.DEFINE_integer(
    "threads",
    1,
    "Threads of each worker; the number may change the last bits of a score.",
    lower_bound=1,
)
ray_cluster.define_flag()
flags.DEFINE_float(
    "ray_gpus",
    0.0,
    "GPUs that Ray reserves for a shard, such as 1; Ray then starts a process "
    "for each shard, so set --shard_lines high.",
    lower_bound=0.0,
)
command.mark_flags_as_finite("word_drop", "max_ratio", "min_score", "ray_gpus")


def main(arguments):
    """Translates and filters; prints how to train on the pairs."""
    del arguments
    source, languages = _open_source()
    options = _make_options(*languages)
    models = tuple(hash_model_files(path) for path in FLAGS.model)
    for path in FLAGS.model:
        validate_model_direction(path, *options.model_languages)
    index = FILES.index("vocabulary.model")
    if len({model.sha256[index] for model in models}) > 1:
        raise InputError(
            "The models of an ensemble need one vocabulary, and those of "
            f"{', '.join(FLAGS.model)} differ; give others."
        )
    manifest = synthesize(FLAGS.output_dir, source, models, options, _run_job)
    print(f"{FLAGS.output_dir}: {format_counts(manifest.counts)}.")
    train = command.command_line(
        "trainers.wmt",
        f"--dataset=text:{FLAGS.output_dir}/",
        f"--source_language={options.source_language}",
        f"--target_language={options.target_language}",
    )
    command.print_next(train)


def _run_job(job, shards):
    if FLAGS.ray is None:
        return workers.run_local(job, shards, dataset_flags.workers())
    return workers.run_on_ray(job, shards, FLAGS.ray, FLAGS.ray_gpus)


def _open_source():
    """Returns the LineSource and both language codes."""
    if (FLAGS.text is None) != FLAGS["dataset"].present:
        raise InputError(
            "Give either --text=FILE or --dataset, whose lines are translated."
        )
    if FLAGS.text is None:
        corpus = dataset_flags.corpus("text")
        if corpus.directions:
            raise InputError(
                f"{corpus.name} is a mixture, of several pairs of languages; "
                "give one of its corpora, with its languages."
            )
        source = corpus_source(corpus, FLAGS.split, FLAGS.direction)
        return source, (corpus.source_language, corpus.target_language)
    languages = FLAGS.source_language, FLAGS.target_language
    validate_direction(f"--text={FLAGS.text}", *languages, "en, de and so on")
    for code in languages:
        validate_language_code(code, "give the pairs' languages.")
    return text_source(FLAGS.text), languages


def _make_options(source_language, target_language):
    _validate_flags()
    tokenize = "13a"
    if FLAGS.best_of > 1 and FLAGS.metric == "bleu":
        is_forward = FLAGS.direction == "forward"
        language = target_language if is_forward else source_language
        tokenize = bleu_tokenizers.choose_tokenizer(language, FLAGS.tokenize)
    names = [field.name for field in dataclasses.fields(SynthesisOptions)]
    values = {name: FLAGS[name].value for name in names}
    values["source_language"] = source_language
    values["target_language"] = target_language
    values["tokenize"] = tokenize
    return SynthesisOptions(**values)


def _validate_flags():
    """Raises InputError for flags without effect."""
    if FLAGS.decoding == "beam":
        requirements = dict.fromkeys(search_flags.SAMPLING, "--decoding=sample")
    else:
        requirements = dict.fromkeys(search_flags.SEARCH, "--decoding=beam")
        # Samples have a maximum length, too.
        del requirements["max_extra_tokens"]
    if FLAGS.best_of == 1:
        requirements["metric"] = requirements["tokenize"] = "--best_of above 1"
    elif FLAGS.text is not None:
        requirements["best_of"] = "the references of a --dataset"
    if FLAGS.text is not None:
        names = ("split", "data_dir", "manual_dir")
        requirements |= dict.fromkeys(names, "--dataset")
    if FLAGS.ray is None:
        requirements["ray_gpus"] = "--ray"
    else:
        requirements["workers"] = "this machine, not --ray"
    for name, requirement in requirements.items():
        if FLAGS[name].present:
            raise InputError(f"--{name} needs {requirement}; omit it.")
    if FLAGS.tag != join_lines(FLAGS.tag).strip():
        raise InputError(
            f"--tag={FLAGS.tag!r} must not begin or end with white space."
        )


if __name__ == "__main__":
    command.run(main, may_be_empty=("tag",))
