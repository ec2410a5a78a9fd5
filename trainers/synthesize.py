"""Makes training pairs by translation: `python -m trainers.synthesize`.

Translates --text=FILE, or a side of --dataset, with --model, or several as an
ensemble, into pairs that --dataset=text:OUTPUT_DIR/ reads.

  --direction=forward   lines are sources, for distillation (Kim and Rush 2016)
  --direction=backward  lines are targets, for back-translation (Sennrich et al.
                        2016) by a model from target to source

With --teacher_url instead of --model a large language model translates, on a
server with the completions interface of OpenAI; a key for it is read from the
variable TEACHER_API_KEY and written nowhere.

--source_language and --target_language are the languages of the pairs; a model
of several languages translates from and into them, so they are its codes.
Finished shards of lines are kept, and the same command resumes. The pairs
depend only on lines, models and flags.
"""

import dataclasses
import os

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.lines.files import join_lines, read_lines
from export.translators import search_flags
from export.translators.batches import BATCH_TOKENS
from trainers.data import dataset_flags
from trainers.data.corpus import validate_direction, validate_language_code
from trainers.scores import bleu_tokenizers
from trainers.synthesis import workers
from trainers.synthesis.job import format_counts, synthesize
from trainers.synthesis.shards import corpus_source, text_source
from trainers.synthesis.teacher import (
    APIS,
    DEFAULT_PROMPT,
    KEY_VARIABLE,
    TeacherJob,
)
from trainers.synthesis.workers import (
    FILES,
    SynthesisOptions,
    TranslationJob,
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
    "model", None, "Model directory; repeat it for an ensemble."
)
flags.DEFINE_string(
    "teacher_url",
    None,
    "Instead of --model, address of a server with a large language model, such "
    "as http://localhost:8000/v1.",
)
flags.mark_flags_as_mutual_exclusive(["model", "teacher_url"], required=True)
flags.DEFINE_string("teacher_model", None, "The server's name for its model.")
flags.DEFINE_enum(
    "teacher_api",
    "chat",
    [*APIS],
    "Interface: a conversation, or the continuation of the prompt, which ends "
    "at its line's end.",
)
flags.DEFINE_string(
    "prompt",
    None,
    "File with the text of a request, in which {text}, {source_language} and "
    "{target_language} are replaced.",
)
flags.DEFINE_integer(
    "num_requests", 8, "Requests at the same time.", lower_bound=1
)
flags.DEFINE_integer(
    "retries",
    5,
    "Retries of a request that fails, after pauses of 0.5, 1, 2, ... seconds.",
    lower_bound=0,
)
flags.DEFINE_float(
    "timeout_seconds",
    120.0,
    "Time limit of a response, in seconds; at most a day.",
    lower_bound=0.001,
    upper_bound=86_400,
)
flags.DEFINE_boolean(
    "estimate", False, "Only print about how many tokens the teacher will need."
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
    "filtered out. A teacher's have four bytes each.",
    lower_bound=2,
)
flags.DEFINE_float(
    "max_ratio",
    None,
    "Maximum ratio of the tokens, or with a teacher the letters, of both "
    "sides; other pairs are filtered out.",
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
command.mark_flags_as_finite(
    *("word_drop", "max_ratio", "min_score", "ray_gpus", "timeout_seconds")
)
# Flags for a teacher alone, and for model directories alone.
_TEACHER = (
    *("teacher_model", "teacher_api", "prompt", "num_requests", "retries"),
    *("timeout_seconds", "estimate"),
)
_MODEL = (
    *(*search_flags.SEARCH, "top_k", "best_of", "min_score", "batch_tokens"),
    *("threads", "workers", "ray"),
)


def main(arguments: list[str]) -> None:
    """Translates and filters; prints how to train on the pairs."""
    del arguments
    source, languages = _open_source()
    options = _make_options(*languages)
    if FLAGS.teacher_url is None:
        job, run = _make_model_job(options), _run_job
    else:
        job, run = _make_teacher_job(options), _run_teacher
        _print_estimate(job, source)
        if FLAGS.estimate:
            return
    manifest = synthesize(FLAGS.output_dir, source, job, run)
    print(f"{FLAGS.output_dir}: {format_counts(manifest.counts)}.")
    train = command.command_line(
        "trainers.wmt",
        f"--dataset=text:{FLAGS.output_dir}/",
        f"--source_language={options.source_language}",
        f"--target_language={options.target_language}",
    )
    command.print_next(train)


def _make_model_job(options):
    models = tuple(hash_model_files(path) for path in FLAGS.model)
    for path in FLAGS.model:
        validate_model_direction(path, *options.model_languages)
    index = FILES.index("vocabulary.model")
    if len({model.sha256[index] for model in models}) > 1:
        raise InputError(
            "The models of an ensemble need one vocabulary, and those of "
            f"{', '.join(FLAGS.model)} differ; give others."
        )
    return TranslationJob(models, options)


def _make_teacher_job(options):
    if FLAGS.teacher_model is None:
        raise InputError("--teacher_url needs --teacher_model, its name there.")
    prompt = DEFAULT_PROMPT
    if FLAGS.prompt is not None:
        prompt = "\n".join(read_lines(FLAGS.prompt)).rstrip("\n")
    key = os.environ.get(KEY_VARIABLE)
    return TeacherJob(
        *(FLAGS.teacher_url, prompt, options, key),
        *(FLAGS.retries, FLAGS.timeout_seconds),
    )


def _print_estimate(job, source):
    requests, read, answered = job.estimate_tokens(
        text for text, _ in source.read()
    )
    print(
        f"{requests:,} requests, about {read:,} tokens to read and "
        f"{answered:,} to answer.",
        flush=True,
    )


def _run_teacher(job, shards):
    return job.run(shards, FLAGS.num_requests)


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
    if FLAGS.teacher_url is not None and not FLAGS["shard_lines"].present:
        # Answers may cost money.
        values["shard_lines"] = 100
    return SynthesisOptions(**values)


def _validate_flags():
    """Raises InputError for flags without effect."""
    requirements = dict.fromkeys(_TEACHER, "--teacher_url")
    if FLAGS.teacher_url is not None:
        requirements = dict.fromkeys(_MODEL, "--model")
    if FLAGS.decoding == "beam":
        names = search_flags.SAMPLING
        requirements |= dict.fromkeys(names, "--decoding=sample")
    else:
        # Samples have a maximum length, too.
        names = {*search_flags.SEARCH} - {"max_extra_tokens"}
        requirements |= dict.fromkeys(names, "--decoding=beam")
    if FLAGS.best_of == 1:
        requirements["metric"] = requirements["tokenize"] = "--best_of above 1"
    elif FLAGS.text is not None and FLAGS.teacher_url is None:
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
