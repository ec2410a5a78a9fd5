"""The student of a distillation: configuration, corpus, steps and scores."""

import dataclasses
import pathlib

import keras_transformer as kt
from export.common.errors import InputError
from export.common.progress_bar import ProgressBar
from export.common.storage import remove_temporary_files, write_json
from export.lines.files import aligned_lines, read_sentences
from export.model_directory import ModelDirectory
from trainers.data import Corpus
from trainers.distillation.journal import Step
from trainers.scores.evaluation import bleu_difference, score_bleu
from trainers.synthesis.shards import drop_duplicates, write_parallel
from trainers.training import config_flags

_VOCABULARY = ("vocabulary_size", "source_vocabulary_size")
_LAYERS = ("num_layers", "num_decoder_layers")


def student_config(teacher, preset, assignments):
    """Returns the student's TransformerConfig, with the teacher's vocabulary.

    Without `preset`, it is the teacher's with one decoder layer. `assignments`
    is a list of "field=value" that change it. Raises InputError for an unknown
    preset or field, a value out of range, or another vocabulary size.
    """
    changes = config_flags.parse_assignments(assignments)
    sizes = {name: getattr(teacher, name) for name in _VOCABULARY}
    for name, value in sizes.items():
        if changes.get(name, value) != value:
            raise InputError(
                f"--set={name}={changes[name]} is not the teacher's {value}, "
                "and a student has the vocabulary of its teacher; omit it."
            )
    if preset is not None:
        own = [f"{name}={value}" for name, value in sizes.items()]
        return config_flags.make_config(preset, [*assignments, *own])
    try:
        defaults = dataclasses.asdict(teacher)
        changes |= config_flags.scale_cooldown(defaults, changes)
        return teacher.replace(**{"num_decoder_layers": 1, **changes})
    except ValueError as error:
        raise InputError(str(error)) from error


def find_mismatch(student, teacher):
    """Returns why a teacher's layers do not fit a student, or "".

    An example is "d_model=64, not 128".
    """
    own, expected = student.architecture(), teacher.architecture()
    for name, value in expected.items():
        if name not in _LAYERS and own[name] != value:
            return f"{name}={own[name]}, not {value}"
    return ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distillation:
    """Settings of a distillation, from the flags.

    `folder` is the output's, `config` the student's, `split` the one to score,
    or None. `init_layers`, `keep_original` and `each_alone` are the flags of
    these names, and `flags` are additional flags by purpose: "data",
    "workers", "tokenize", "synthesize" and "wmt".
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
        """Paths of the translations of the student and of the teachers."""
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
                lambda: write_mixture(
                    corpus, self.corpus, list(synthetic), self.keep_original
                ),
            ),
            self._prepare(corpus),
            self._train(),
            *(self._score(corpus) if self.split else []),
        ]

    def _synthetic(self):
        """Returns a dict of translation folders to paths of their teachers."""
        folder = self.folder / "translations"
        paths = [each.path for each in self.teachers]
        groups = {folder / "all": paths}
        if self.each_alone and len(paths) > 1:
            groups |= {folder / f"{n}": [p] for n, p in enumerate(paths, 1)}
        return groups

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
    """Writes the student's corpus, `text:FOLDER/`; prints its size.

    Dev and test are those of `corpus`. The train split has the distinct pairs
    of `synthetic`, a list of output folders of trainers.synthesize, and of
    `corpus` with `keep_original`. InputError if a file cannot be read or
    written.
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
            held_out = corpus.evaluation_set(split)
            streams = held_out.reference_streams()
            # Blank lines stand for missing references.
            rows = (
                [text or "" for text in row]
                for row in zip(held_out.sources, *streams)
            )
            numbers = range(1, len(streams))
            more = [f"{split}.{languages[1]}.{n}" for n in numbers]
            write_parallel(paths(split, *more), rows)
    print(f"{count:,} different pairs.", flush=True)


def compare_bleu(paths, evaluation_set, tokenize, output):
    """Scores translations of student and teachers; returns lines to print.

    `paths` are the student's and the teachers' translations, `tokenize` names
    sacreBLEU's tokenizer, and `output` is the .json file for the scores.
    """
    indices = evaluation_set.scored_indices
    scored = evaluation_set.subset(indices)
    lines = [list(read_sentences(path)) for path in paths]
    texts = [[each[index] for index in indices] for each in lines]
    student, teacher = (score_bleu(each, scored, tokenize) for each in texts)
    paired = bleu_difference(*texts, scored, tokenize)
    content = {
        "student": student.score,
        "teacher": teacher.score,
        "signature": student.signature,
        "sentences": len(indices),
        **paired,
    }
    write_json(output, content)
    return [
        f"teacher: BLEU {teacher.score:.2f}",
        f"student: BLEU {student.score:.2f}; "
        "{difference:+.2f} BLEU, 95 % of resampled sets: {low:+.2f} to "
        "{high:+.2f} (paired {bootstrap})".format_map(paired),
        f"{len(indices):,} sentences, {student.signature}",
    ]
