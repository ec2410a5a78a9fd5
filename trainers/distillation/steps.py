"""Commands of a distillation, and the student's training corpus."""

import dataclasses
import pathlib

import keras_transformer as kt
from export.common.atomic_files import remove_temporary_files
from export.common.progress_bar import ProgressBar
from export.lines.files import aligned_lines
from export.model_directory import ModelDirectory
from trainers.data import Corpus
from trainers.distillation.journal import Step
from trainers.synthesis.parallel_text import drop_duplicates, write_parallel
from trainers.training import config_flags


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distillation:
    """Settings of a distillation, from the flags.

    Attributes:
        folder: pathlib.Path of the output.
        corpus: Corpus whose sources the teachers translate.
        teachers: list of ModelDirectory.
        config: TransformerConfig of the student.
        init_layers: whether to initialize the student with layers of the first
            teacher.
        keep_original: whether to train on the original pairs, too.
        each_alone: whether to train on the translations of each single
            teacher, too.
        split: split for scoring, or None.
        flags: additional flags, lists of str by purpose: "data", "workers",
            "tokenize", "synthesize" and "wmt".
    """

    folder: pathlib.Path
    corpus: Corpus
    teachers: list[ModelDirectory]
    config: kt.TransformerConfig
    init_layers: bool
    keep_original: bool
    each_alone: bool
    split: str | None
    flags: dict[str, list[str]]

    @property
    def student(self):
        """Path of the student's model directory."""
        return self.folder / "student"

    @property
    def scored_files(self):
        """Paths of the translations of student and teachers."""
        return [self.folder / "scores" / n for n in ("student", "teacher")]

    def steps(self):
        """Returns all steps, a list of Step."""
        corpus = self.folder / "corpus"
        synthetic = self._synthetic()
        return [
            *(self._translate(*each) for each in synthetic.items()),
            Step(
                "Mixing the corpus",
                ["mix"],
                corpus / f"train.{self.corpus.target_language}",
                lambda: self._mix(corpus, list(synthetic)),
            ),
            self._prepare(corpus),
            self._train(),
            *(self._score(corpus) if self.split else []),
        ]

    def _synthetic(self):
        """Returns a dict of translation folders to paths of their teachers."""
        paths = [each.path for each in self.teachers]
        groups = {"all": paths}
        if self.each_alone and len(paths) > 1:
            groups |= {str(n): [path] for n, path in enumerate(paths, 1)}
        return {
            self.folder / "translations" / name: groups[name] for name in groups
        }

    def _dataset_flags(self, dataset):
        return [
            f"--dataset={dataset}",
            f"--source_language={self.corpus.source_language}",
            f"--target_language={self.corpus.target_language}",
        ]

    def _translate(self, folder, teachers):
        command = [
            "trainers.synthesize",
            *self._dataset_flags(self.corpus.name),
            *self.flags["data"],
            *(f"--model={path}" for path in teachers),
            f"--output_dir={folder}",
            *self.flags["workers"],
            *self.flags["synthesize"],
        ]
        title = f"Translating by {' and '.join(map(str, teachers))}"
        return Step(title, command, folder / "manifest.json")

    def _mix(self, folder, synthetic):
        count = write_mixture(
            folder, self.corpus, synthetic, self.keep_original
        )
        print(f"{count:,} different pairs.", flush=True)

    def _prepare(self, corpus):
        command = [
            "trainers.prepare",
            *self._dataset_flags(f"text:{corpus}/"),
            f"--vocabulary={self.teachers[0].vocabulary_path}",
            f"--vocabulary_size={self.config.encoder_vocabulary_size}",
            f"--output_dir={self.folder / 'data'}",
            *self.flags["workers"],
        ]
        output = self.folder / "data" / "manifest.json"
        return Step("Preparing the data", command, output)

    def _train(self):
        assignments = config_flags.format_assignments(self.config, "base")
        initial = [f"--init_layers_from={self.teachers[0].path}"]
        command = [
            "trainers.wmt",
            f"--prepared_dir={self.folder / 'data'}",
            f"--model_dir={self.student}",
            "--preset=base",
            *(f"--set={each}" for each in assignments),
            *(initial if self.init_layers else []),
            *self.flags["tokenize"],
            # A later step scores the student.
            "--noscore",
            *self.flags["wmt"],
        ]
        output = self.student / "model.weights.h5"
        return Step("Training the student", command, output)

    def _score(self, corpus):
        student, teacher = self.scored_files
        evaluate = [
            "trainers.evaluate",
            *self._dataset_flags(self.corpus.name),
            *self.flags["data"],
            f"--model_dir={self.student}",
            f"--split={self.split}",
            f"--output={student}",
            *self.flags["tokenize"],
        ]
        # trainers.evaluate takes only one model, and writes to its folder.
        translate = [
            "export.translate",
            *(f"--model={each.path}" for each in self.teachers),
            f"--input={corpus / self.split}.{self.corpus.source_language}",
            f"--output={teacher}",
        ]
        return [
            Step("Scoring the student", evaluate, student),
            Step("Translating by the teachers", translate, teacher),
        ]


def write_mixture(folder, corpus, synthetic, keep_original):
    """Writes the student's corpus; returns the number of train pairs.

    Its name is `text:FOLDER/`; dev and test are those of `corpus`. The train
    split has the distinct pairs of `synthetic`, a list of output folders of
    trainers.synthesize, and of `corpus` with `keep_original`. Raises InputError
    if a file cannot be read or written.
    """
    languages = corpus.source_language, corpus.target_language

    def pairs():
        if keep_original:
            yield from corpus.pairs("train")
        for each in synthetic:
            paths = [each / f"train.{language}" for language in languages]
            yield from aligned_lines(paths)

    def paths(split, *suffixes):
        names = [f"{split}.{language}" for language in languages]
        return [folder / name for name in (*names, *suffixes)]

    remove_temporary_files(folder, "*")
    with ProgressBar("Mixing", None, "pairs") as bar:

        def counted():
            for pair in pairs():
                yield pair
                bar.update(1)

        count = write_parallel(paths("train"), drop_duplicates(counted()))
    for split in ("dev", "test"):
        if split in corpus.splits():
            written = corpus.evaluation_set(split)
            most = max(map(len, written.references))
            # Blank lines stand for missing references.
            rows = (
                (source, *references, *[""] * (most - len(references)))
                for source, references in zip(
                    written.sources, written.references
                )
            )
            more = [f"{split}.{languages[1]}.{n}" for n in range(1, most)]
            write_parallel(paths(split, *more), rows)
    return count
