"""Distills one or several teachers: `python -m trainers.distill`.

python -m trainers.distill --teacher=runs/base --output_dir=runs/student

The student learns from the teachers' translations of a corpus and from its
original pairs (sequence-level knowledge distillation: Kim and Rush 2016). Each
step writes a folder of --output_dir:

  translations/  by the ensemble of teachers and by each alone
  corpus/        translations and original pairs without duplicates
  data/          that corpus with the teacher's vocabulary
  student/       model directory; starts with layers of the first teacher if
                 only the numbers of layers differ
  scores/        translations of the test split, and comparison.json

After an interruption, the same command resumes and skips finished steps.
"""

import dataclasses
import pathlib

from absl import flags

from export.common import command
from export.common.errors import InputError
from export.common.processes import folder_lock, run_subcommand
from export.model_directory import ModelDirectory
from keras_transformer.config import field_names
from keras_transformer.presets import PRESETS
from trainers.data import dataset_flags
from trainers.distillation.steps import (
    JOURNAL_FILE,
    Distillation,
    compare_bleu,
    find_mismatch,
    read_finished_commands,
    run_steps,
    student_config,
)
from trainers.scores import bleu_tokenizers
from trainers.synthesis.workers import hash_model_files
from trainers.training import config_flags
from trainers.training.training_inputs import DEV_FLAGS

FLAGS = flags.FLAGS
# Shows the flags of these modules in --help.
flags.adopt_module_key_flags(dataset_flags)
flags.adopt_module_key_flags(bleu_tokenizers)

flags.DEFINE_multi_string(
    "teacher",
    None,
    "Model directory; repeat it for several teachers with one vocabulary. "
    "--dataset is by default the training data of the first.",
    required=True,
)
flags.DEFINE_string(
    "output_dir", None, "New folder, or one to resume in.", required=True
)
flags.DEFINE_string(
    "preset",
    None,
    f"The student's TransformerConfig: {', '.join(PRESETS)}. Default: the "
    "first teacher's own with num_decoder_layers=1. The vocabulary is always "
    "the teacher's.",
)
flags.DEFINE_multi_string(
    "set", [], "A field of the student's config, such as num_layers=12."
)
flags.DEFINE_integer(
    "train_steps", None, "Updates of the student; by default its train_steps."
)
flags.DEFINE_boolean(
    "init_layers", True, "Start with layers of the first teacher if they fit."
)
flags.DEFINE_boolean(
    "keep_original", True, "Learn from the corpus' own pairs too."
)
flags.DEFINE_boolean(
    "each_alone",
    True,
    "With several teachers: learn from the translations of each of them too, "
    "not only from the translations of the ensemble.",
)
flags.DEFINE_integer(
    "best_of",
    1,
    "Number of best translations in the beam, of which the most similar to the "
    "reference by sentence BLEU is used; 1 for the most probable.",
    lower_bound=1,
)
flags.DEFINE_multi_string(
    "synthesize_flag",
    [],
    "Flag of trainers.synthesize, such as --synthesize_flag=--max_ratio=3.",
)
flags.DEFINE_multi_string(
    "wmt_flag", [], "Flag of trainers.wmt, such as --wmt_flag=--patience=5."
)

# Flags of trainers.wmt that trainers.distill sets.
_STUDENT_FLAGS = (
    *("preset", "set", "train_steps", "model_dir", "prepared_dir"),
    "init_layers_from",
)


def main(arguments: list[str]) -> int:
    """Runs the steps and compares the student with its teachers."""
    del arguments
    teachers = [ModelDirectory(path) for path in FLAGS.teacher]
    digests = _hash_weights(teachers)
    corpus = _open_corpus(teachers[0])
    _validate_wmt_flags(corpus)
    tokenize = bleu_tokenizers.choose_tokenizer(
        corpus.target_language, FLAGS.tokenize
    )
    distillation = _make_distillation(teachers, corpus)
    folder = distillation.folder
    settings = _fixed_settings(digests, distillation)
    # Before the lock, so that an error writes nothing.
    read_finished_commands(folder, settings)
    if FLAGS.wmt_flag and not (folder / JOURNAL_FILE).exists():
        # Finds invalid flags before hours of work.
        code = run_subcommand(
            "trainers.wmt", [*FLAGS.wmt_flag, "--only_check_args"]
        )
        if code:
            return code
    with folder_lock(folder, "distillation"):
        steps = distillation.steps()
        code = run_steps(steps, folder, settings, run_subcommand)
        if code:
            return code
        if distillation.split:
            lines = compare_bleu(
                distillation.scored_files,
                corpus.evaluation_set(distillation.split),
                tokenize,
                folder / "scores" / "comparison.json",
            )
            print("", f"{corpus.name}, {distillation.split}:", sep="\n")
            print(*lines, sep="\n")
    _print_next(distillation.student, folder.name)
    return 0


def _print_next(student, name):
    translate = command.command_line("export.translate", f"--model={student}")
    export = command.command_line(
        "export.saved_model",
        f"--model_dir={student}",
        f"--export_dir=exports/{name}",
    )
    command.print_next(f"{translate} < in > out", export)


def _hash_weights(teachers):
    """Returns SHA-256 of all weights; InputError if vocabularies differ."""
    models = [hash_model_files(each.path) for each in teachers]
    for model in models:
        _, vocabulary, _ = model.sha256
        if vocabulary != models[0].sha256[1]:
            raise InputError(
                f"{models[0].path} and {model.path} have different "
                "vocabularies; train teachers with the same one "
                "(trainers.prepare --vocabulary)."
            )
    return [model.sha256[-1] for model in models]


def _open_corpus(teacher):
    """Opens --dataset, by default the teacher's training data."""
    run = teacher.read_run() if teacher.run_path.exists() else {}
    if not FLAGS["dataset"].present and "dataset" not in run:
        raise InputError(
            f"{teacher.path} does not record its training data; give "
            "--dataset, whose sources the teachers translate."
        )
    corpus = dataset_flags.corpus("text", run)
    if corpus.directions:
        raise InputError(
            f"{corpus.name} is a mixture; trainers.distill needs a teacher of "
            "one pair of languages, and its corpus."
        )
    splits = corpus.splits()
    if "train" not in splits:
        raise InputError(
            f"Expected a train split in {corpus.name}, got {', '.join(splits)}."
        )
    return corpus


def _validate_wmt_flags(corpus):
    for flag in FLAGS.wmt_flag:
        name, _, value = flag.lstrip("-").partition("=")
        if name in _STUDENT_FLAGS:
            raise InputError(
                f"trainers.distill sets --{name} itself; omit --wmt_flag=--"
                f"{name}."
            )
        needs_dev = name in DEV_FLAGS and value != "0"
        if needs_dev and "dev" not in corpus.splits():
            raise InputError(
                f"--{name} needs a dev split, which {corpus.name} lacks; omit "
                "it."
            )


def _make_distillation(teachers, corpus):
    config, init_layers = _make_student_config(teachers[0])
    splits = [name for name in ("test", "dev") if name in corpus.splits()]
    if not splits:
        print(f"{corpus.name} has neither test nor dev: nothing is scored.")
    # trainers.synthesize accepts --tokenize only with --best_of above 1.
    names = ("best_of", "tokenize") if FLAGS.best_of > 1 else ("best_of",)
    more_flags = {
        "data": command.serialize_flags("data_dir", "manual_dir"),
        "workers": command.serialize_flags("workers"),
        "tokenize": command.serialize_flags("tokenize"),
        "synthesize": command.serialize_flags(*names) + FLAGS.synthesize_flag,
        "wmt": FLAGS.wmt_flag,
    }
    return Distillation(
        folder=pathlib.Path(FLAGS.output_dir),
        corpus=corpus,
        teachers=teachers,
        config=config,
        init_layers=init_layers,
        keep_original=FLAGS.keep_original,
        each_alone=FLAGS.each_alone,
        split=splits[0] if splits else None,
        flags=more_flags,
    )


def _make_student_config(teacher):
    """Returns the student's config, and whether it copies layers."""
    changes = list(FLAGS.set)
    if FLAGS.train_steps is not None:
        changes.append(f"train_steps={FLAGS.train_steps}")
    config = student_config(teacher.read_config(), FLAGS.preset, changes)
    mismatch = find_mismatch(config, teacher.read_config())
    if FLAGS.init_layers and mismatch:
        print(
            "The student starts with fresh weights, not with layers of "
            f"{teacher.path}: it has {mismatch}.",
            flush=True,
        )
    init_layers = FLAGS.init_layers and not mismatch
    if not init_layers:
        config_flags.validate_translator_config(config)
    return config, init_layers


def _fixed_settings(digests, distillation):
    """Returns the settings that must not change when resuming."""
    may_change = field_names("duration", "decoding")
    config = dataclasses.asdict(distillation.config)
    corpus = distillation.corpus
    return {
        "teachers of SHA-256": ", ".join(digest[:12] for digest in digests),
        "dataset": corpus.name,
        "source_language": corpus.source_language,
        "target_language": corpus.target_language,
        "fingerprint": corpus.fingerprint(),
        "best_of": FLAGS.best_of,
        "each_alone": distillation.each_alone,
        "keep_original": distillation.keep_original,
        "init_layers": distillation.init_layers,
        **{name: config[name] for name in config if name not in may_change},
    }


if __name__ == "__main__":
    command.run(main)
