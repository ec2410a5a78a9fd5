"""Makes a student of one or several teachers: `python -m trainers.distill`.

python -m trainers.distill --teacher=runs/base --output_dir=runs/student

The student learns from what the teachers say to the sources of a corpus,
beside the corpus' own pairs (sequence-level knowledge distillation: Kim and
Rush 2016). These steps go into --output_dir:

  taught/    the teachers' translations, by trainers.synthesize: of several
             teachers what they say together, and what each says alone
  corpus/    these and the original pairs, each once
  data/      that corpus with the teacher's vocabulary, by trainers.prepare
  student/   the model directory, by trainers.wmt; begins with layers of the
             first teacher where it differs in numbers of layers alone
  scores/    translations of the test split by student and teachers, and
             comparison.json: BLEU and the difference with its 95 % interval

Ctrl-C saves. The same command goes on after any end, and passes over the steps
that are done.
"""

import dataclasses
import pathlib

from absl import flags

from export import command
from export.errors import InputError
from export.model_directory import ModelDirectory
from keras_transformer.config import field_names
from keras_transformer.presets import PRESETS
from trainers import dataset_flags, settings
from trainers.data import dataset_kind
from trainers.data.manifest import validate_kind
from trainers.distillation.comparison import compare
from trainers.distillation.journal import Journal
from trainers.distillation.recipe import Recipe
from trainers.distillation.steps import go_through
from trainers.distillation.student import other_than_layers, student_config
from trainers.processes import folder_lock, run_subcommand
from trainers.scores import bleu_tokenizers
from trainers.synthesis.models import read_model

FLAGS = flags.FLAGS
# Or --help would not show them.
flags.adopt_module_key_flags(dataset_flags)
flags.adopt_module_key_flags(bleu_tokenizers)

flags.DEFINE_multi_string(
    "teacher",
    None,
    "Model directory; given several times, teachers with one vocabulary. "
    "Without --dataset the data are those that the first was trained on.",
    required=True,
)
flags.DEFINE_string(
    "output_dir",
    None,
    "Where all goes: a new folder, or one to go on in.",
    required=True,
)
flags.DEFINE_string(
    "preset",
    None,
    f"The student's TransformerConfig: {', '.join(PRESETS)}. Default: the "
    "first teacher's own with num_decoder_layers=1. The vocabulary is the "
    "teacher's in any case.",
)
flags.DEFINE_multi_string(
    "set",
    [],
    "A field of the student's configuration, such as --set=num_layers=12.",
)
flags.DEFINE_integer(
    "train_steps",
    None,
    "Updates of the student; by default as its configuration says.",
)
flags.DEFINE_boolean(
    "init_layers",
    True,
    "Begin with layers of the first teacher where the widths are the same.",
)
flags.DEFINE_boolean(
    "keep_original", True, "Learn from the corpus' own pairs too."
)
flags.DEFINE_boolean(
    "each_alone",
    True,
    "Of several teachers: learn from what each says alone too, not only from "
    "what they say together.",
)
flags.DEFINE_integer(
    "best_of",
    1,
    "Of so many answers of the beam take the one most like the reference, by "
    "sentence BLEU; 1 for the best of the beam.",
    lower_bound=1,
)
flags.DEFINE_multi_string(
    "synthesize_flag",
    [],
    "A flag of trainers.synthesize, such as --synthesize_flag=--max_ratio=3.",
)
flags.DEFINE_multi_string(
    "wmt_flag",
    [],
    "A flag of trainers.wmt, such as --wmt_flag=--precision=mixed_bfloat16.",
)

_NEED_DEV = ("keep_best", "patience", "dev_bleu_sentences")


def main(arguments):
    """Goes through the steps and says how the student compares."""
    del arguments
    teachers = [ModelDirectory(path) for path in FLAGS.teacher]
    digests = _digests(teachers)
    corpus = _corpus(teachers[0])
    tokenize = bleu_tokenizers.choose(corpus.target_language, FLAGS.tokenize)
    recipe = _recipe(teachers, corpus)
    facts = _facts(digests, recipe)
    if not Journal(recipe.folder, facts).begun and FLAGS.wmt_flag:
        # Before hours of work for nothing.
        check = [*FLAGS.wmt_flag, "--only_check_args"]
        code = run_subcommand("trainers.wmt", check)
        if code:
            return code
    with folder_lock(recipe.folder, "distillation"):
        # Read once more: another process may have been at it until just now.
        journal = Journal(recipe.folder, facts)
        code = go_through(recipe.steps(run_subcommand), journal)
        if code:
            return code
        if recipe.split:
            _compare(recipe, tokenize)
    _name_next(recipe.student)
    return 0


def _digests(teachers):
    """Returns the SHA-256 of the teachers' weights, list of str.

    Raises:
        InputError: one is none, or their vocabularies differ.
    """
    models = [read_model(each.path) for each in teachers]
    for model in models:
        _, vocabulary, _ = model.sha256
        if vocabulary != models[0].sha256[1]:
            raise InputError(
                f"{models[0].path} and {model.path} have different "
                "vocabularies; teachers of one student need the same one, "
                "with trainers.prepare --vocabulary."
            )
    return [model.sha256[-1] for model in models]


def _corpus(teacher):
    trained_on = teacher.read_run() if teacher.run_path.exists() else {}
    named = FLAGS["dataset"].present
    if not named and "dataset" not in trained_on:
        raise InputError(
            f"{teacher.path} does not say what it was trained on; give "
            "--dataset, whose sources the teachers translate."
        )
    # By its name alone: a teacher's languages are none of the other kind's.
    name = FLAGS.dataset if named else trained_on["dataset"]
    validate_kind(name, dataset_kind(name), "text")
    corpus = dataset_flags.corpus(trained_on)
    splits = corpus.splits()
    if "train" not in splits:
        raise InputError(
            f"{corpus.name} has no train split to learn from; it has "
            f"{', '.join(splits)}."
        )
    given = (each.lstrip("-").partition("=")[0] for each in FLAGS.wmt_flag)
    for name in given:
        if name in _NEED_DEV and "dev" not in splits:
            raise InputError(
                f"{corpus.name} has no dev split for --{name} to measure; "
                "leave the flag out, or add a dev split."
            )
    return corpus


def _recipe(teachers, corpus):
    config, init_layers = _student(teachers[0])
    best_of = _given(["best_of"])
    return Recipe(
        folder=pathlib.Path(FLAGS.output_dir),
        corpus=corpus,
        teachers=teachers,
        config=config,
        init_layers=init_layers,
        keep_original=FLAGS.keep_original,
        each_alone=FLAGS.each_alone,
        split=_scored_split(corpus),
        data=_given(["data_dir", "manual_dir"]),
        workers=_given(["workers"]),
        tokenize=_given(["tokenize"]),
        synthesize=[
            *best_of,
            # It is of no use to the best of the beam, and refused there.
            *(_given(["tokenize"]) if FLAGS.best_of > 1 else []),
            *FLAGS.synthesize_flag,
        ],
        wmt=FLAGS.wmt_flag,
    )


def _student(teacher):
    """Returns its TransformerConfig, and whether it begins with layers."""
    theirs = teacher.read_config()
    steps = []
    if FLAGS.train_steps is not None:
        steps = [f"train_steps={FLAGS.train_steps}"]
    config = student_config(theirs, FLAGS.preset, [*FLAGS.set, *steps])
    difference = other_than_layers(config, theirs)
    if FLAGS.init_layers and difference:
        print(
            "The student begins with fresh weights, not with layers of "
            f"{teacher.path}: it has {difference}.",
            flush=True,
        )
    init_layers = FLAGS.init_layers and not difference
    if not init_layers:
        settings.refuse_parser_fields(config)
    return config, init_layers


def _scored_split(corpus):
    found = [each for each in ("test", "dev") if each in corpus.splits()]
    if not found:
        print(f"{corpus.name} has neither test nor dev: there is no score.")
    return next(iter(found), None)


def _facts(digests, recipe):
    """Returns what decides the student, beside what the commands check."""
    may_change = field_names("ending", "decoding")
    corpus = recipe.corpus
    return {
        "teachers of SHA-256": ", ".join(each[:12] for each in digests),
        "dataset": corpus.name,
        "source_language": corpus.source_language,
        "target_language": corpus.target_language,
        "data of fingerprint": corpus.fingerprint(),
        "best_of": FLAGS.best_of,
        "each_alone": recipe.each_alone,
        "keep_original": recipe.keep_original,
        "init_layers": recipe.init_layers,
        **{
            name: value
            for name, value in dataclasses.asdict(recipe.config).items()
            if name not in may_change
        },
    }


def _compare(recipe, tokenize):
    lines = compare(
        recipe.translations,
        recipe.corpus.evaluation_set(recipe.split),
        tokenize,
        recipe.folder / "scores" / "comparison.json",
    )
    print("", f"{recipe.corpus.name}, {recipe.split}:", *lines, sep="\n")


def _given(names):
    return [FLAGS[name].serialize() for name in names if FLAGS[name].present]


def _name_next(student):
    translate = command.command_line("export.translate", f"--model={student}")
    command.print_next(
        f"{translate} < in > out",
        command.command_line(
            *("export.saved_model", f"--model_dir={student}"),
            f"--export_dir=exports/{student.parent.name}",
        ),
    )


if __name__ == "__main__":
    command.run(main)
