"""The steps of a distillation, and the journal of those that are finished.

`distill.json` records finished commands. If a step is repeated, all later steps
are repeated.
"""

import dataclasses
import functools
import itertools
import json
import pathlib
import typing
from collections.abc import Callable

import keras_transformer as kt
from export.common.errors import InputError
from export.common.progress_bar import ProgressBar
from export.common.storage import (
    explain_read_errors,
    remove_temporary_files,
    write_json,
)
from export.lines.files import aligned_lines, read_sentences
from export.model_directory import ModelDirectory
from trainers.data import Corpus
from trainers.data.corpus import describe_fingerprint_change
from trainers.scores.evaluation import bleu_difference, score_bleu
from trainers.synthesis.job import validate_output_folder
from trainers.synthesis.shards import drop_duplicates, write_parallel
from trainers.training import config_flags

JOURNAL_FILE = "distill.json"
_VOCABULARY = ("vocabulary_size", "source_vocabulary_size")
_LAYERS = ("num_layers", "num_decoder_layers")


def student_config(teacher, preset, assignments):
    """Returns the student's TransformerConfig, with the teacher's vocabulary.

    Without `preset`, it is the teacher's with one decoder layer. `assignments`
    is a list of "field=value" that change it.
    """
    changes = config_flags.parse_assignments(assignments)
    sizes = {name: getattr(teacher, name) for name in _VOCABULARY}
    for name, value in sizes.items():
        if changes.get(name, value) != value:
            raise InputError(
                f"Expected the teacher's {name}={value}, got {changes[name]}; "
                "omit it."
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
    """Returns why layers do not fit, as "d_model=64, not 128", or ""."""
    own, expected = student.architecture(), teacher.architecture()
    for name, value in expected.items():
        if name not in _LAYERS and own[name] != value:
            return f"{name}={own[name]}, not {value}"
    return ""


class Step(typing.NamedTuple):
    """A command, as a module and its flags, or a function called instead.

    `output` exists once it is finished.
    """

    title: str
    command: list[str]
    output: pathlib.Path
    function: Callable[[], None] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distillation:
    """Settings of a distillation, from the flags.

    `config` is the student's, `split` the one to score, or None; `flags` are
    more flags by purpose.
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
    of the folders `synthetic`, and of `corpus` with `keep_original`.
    """
    languages = corpus.source_language, corpus.target_language

    def paths(split, *suffixes):
        names = [f"{split}.{language}" for language in languages]
        return [folder / name for name in (*names, *suffixes)]

    def pairs():
        streams = [corpus.pairs("train")] if keep_original else []
        for each in synthetic:
            names = [each / f"train.{language}" for language in languages]
            streams.append(aligned_lines(names))
        with ProgressBar("Mixing", None, "pairs") as bar:
            for pair in itertools.chain.from_iterable(streams):
                yield pair
                bar.update(1)

    remove_temporary_files(folder, "*")
    count = write_parallel(paths("train"), drop_duplicates(pairs()))
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
    """Scores the files of student and teachers; returns lines to print."""
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


def run_steps(steps, folder, facts, run_command):
    """Runs the unfinished steps; returns 0 or a failed command's exit code."""
    done = read_finished_commands(folder, facts)
    remove_temporary_files(folder, JOURNAL_FILE)
    for number, step in enumerate(steps):
        head = f"{step.title}, step {number + 1} of {len(steps)}"
        if done[number : number + 1] == [step.command] and step.output.exists():
            print(f"{head}: finished before.", flush=True)
            continue
        print(f"{head}.", flush=True)
        done = done[:number]
        _write(folder, facts, done)
        module, *arguments = step.command
        run = step.function or functools.partial(run_command, module, arguments)
        code = run()
        if code:
            reason = f"failed with exit code {code}."
            if code > 128:
                reason = "was interrupted; the same command resumes."
            print(f"Step {number + 1} {reason}")
            return code
        done.append(step.command)
        _write(folder, facts, done)
    return 0


def read_finished_commands(folder, facts):
    """Returns the commands of the finished steps.

    `facts` is a JSON dict of all settings that change the student; InputError
    if the folder holds a distillation with others, or other files.
    """
    validate_output_folder(folder, JOURNAL_FILE, "distillation.lock")
    path = folder / JOURNAL_FILE
    if not path.exists():
        return []
    try:
        with explain_read_errors(path):
            content = json.loads(path.read_text(encoding="utf-8"))
        before, done = dict(content["facts"]), list(content["done"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(
            f"{path} is not the journal of a distillation ({error!r}); give "
            "another --output_dir."
        ) from error
    # Before a step is finished, different facts do no harm.
    changed = [name for name in facts if before.get(name) != facts[name]]
    if done and changed:
        old, new = before.get(changed[0]), facts[changed[0]]
        change = f"{changed[0]} {old}, not {new}"
        if changed[0] == "fingerprint":
            change = describe_fingerprint_change(str(old), new)
        raise InputError(
            f"{folder} was begun with other settings ({change}); restore "
            "them, or give another --output_dir."
        )
    return done


def _write(folder, facts, done):
    write_json(folder / JOURNAL_FILE, {"facts": facts, "done": done})
