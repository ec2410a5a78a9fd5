"""The steps of a distillation: which command does what, with which flags."""

import dataclasses
import pathlib

import keras_transformer as kt
from export.model_directory import ModelDirectory
from trainers import settings
from trainers.data import Corpus
from trainers.distillation.comparison import translate
from trainers.distillation.mixture import mix
from trainers.distillation.steps import Step, subcommand


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """What is asked for.

    Attributes:
        folder: pathlib.Path where everything goes.
        corpus: Corpus whose sources the teachers translate.
        teachers: list of ModelDirectory.
        config: TransformerConfig of the student.
        init_layers: whether the student begins with the first teacher's.
        keep_original: whether it learns from the corpus' own pairs.
        each_alone: whether it learns from what each of several teachers says
            alone.
        split: what student and teachers are scored on; None for nothing.
        data: flags that name the corpus' folders, list of str.
        workers: flags of synthesize and prepare.
        tokenize: flags of all that counts BLEU.
        synthesize: further flags of trainers.synthesize.
        wmt: further flags of trainers.wmt.
    """

    folder: pathlib.Path
    corpus: Corpus
    teachers: list[ModelDirectory]
    config: kt.TransformerConfig
    init_layers: bool
    keep_original: bool
    each_alone: bool
    split: str | None
    data: list[str]
    workers: list[str]
    tokenize: list[str]
    synthesize: list[str]
    wmt: list[str]

    @property
    def student(self):
        """Where the student is, a pathlib.Path."""
        return self.folder / "student"

    @property
    def translations(self):
        """The files of student and teachers, a list of pathlib.Path."""
        return [self.folder / "scores" / n for n in ("student", "teacher")]

    def steps(self, run):
        """Returns the steps, a list of Step.

        Args:
            run: function of a command's module and its flags that returns
                its exit code, such as `processes.run_subcommand`.
        """
        scoring = self._scoring(run) if self.split else []
        return [
            *self._teaching(run),
            Step(
                "Putting the corpus together",
                ["mix"],
                self._mixed / f"train.{self.corpus.target_language}",
                self._mix,
            ),
            self._preparing(run),
            self._training(run),
            *scoring,
        ]

    @property
    def _mixed(self):
        return self.folder / "corpus"

    @property
    def _taught(self):
        """Folders, and the teachers whose answers they hold."""
        paths = [each.path for each in self.teachers]
        groups = {"all": paths}
        if self.each_alone and len(paths) > 1:
            groups |= {str(n): [path] for n, path in enumerate(paths, 1)}
        return {
            self.folder / "taught" / name: group
            for name, group in groups.items()
        }

    def _named(self, dataset):
        return [
            f"--dataset={dataset}",
            f"--source_language={self.corpus.source_language}",
            f"--target_language={self.corpus.target_language}",
        ]

    def _teaching(self, run):
        return [
            subcommand(
                f"Translating by {' and '.join(map(str, paths))}",
                "trainers.synthesize",
                [
                    *self._named(self.corpus.name),
                    *self.data,
                    *(f"--model={path}" for path in paths),
                    f"--output_dir={place}",
                    *self.workers,
                    *self.synthesize,
                ],
                place / "manifest.json",
                run,
            )
            for place, paths in self._taught.items()
        ]

    def _mix(self):
        kept, repeated = mix(
            self._mixed, self.corpus, list(self._taught), self.keep_original
        )
        print(
            f"{kept:,} pairs; {repeated:,} more were there already.",
            flush=True,
        )
        return 0

    def _preparing(self, run):
        return subcommand(
            "Preparing the data",
            "trainers.prepare",
            [
                *self._named(f"text:{self._mixed}/"),
                f"--vocabulary={self.teachers[0].vocabulary_path}",
                f"--vocabulary_size={self.config.source_pieces}",
                f"--output_dir={self.folder / 'data'}",
                *self.workers,
            ],
            self.folder / "data" / "manifest.json",
            run,
        )

    def _training(self, run):
        changes = settings.assignments_of(self.config, "base")
        beginning = [f"--init_layers_from={self.teachers[0].path}"]
        return subcommand(
            "Training the student",
            "trainers.wmt",
            [
                f"--prepared_dir={self.folder / 'data'}",
                f"--model_dir={self.student}",
                "--preset=base",
                *(f"--set={each}" for each in changes),
                *(beginning if self.init_layers else []),
                *self.tokenize,
                # That is a step of its own.
                "--noscore",
                *self.wmt,
            ],
            self.student / "model.weights.h5",
            run,
        )

    def _scoring(self, run):
        student, teacher = self.translations

        def ask_teachers():
            sources = list(self.corpus.evaluation_set(self.split).sources)
            translate([each.path for each in self.teachers], sources, teacher)
            return 0

        return [
            subcommand(
                "Scoring the student",
                "trainers.evaluate",
                [
                    *self._named(self.corpus.name),
                    *self.data,
                    f"--model_dir={self.student}",
                    f"--split={self.split}",
                    f"--output={student}",
                    *self.tokenize,
                ],
                student,
                run,
            ),
            # Not trainers.evaluate: it takes one model, and would write into
            # the teacher's folder.
            Step(
                "Asking the teachers the same",
                [self.split],
                teacher,
                ask_teachers,
            ),
        ]
