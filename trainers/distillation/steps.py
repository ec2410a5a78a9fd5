"""Steps of a distillation, and a journal, `distill.json`, of finished steps.

If a step is repeated, all later steps are repeated.
"""

import dataclasses
import itertools
import json
import pathlib
import typing
from collections.abc import Callable, Iterable, Sequence

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
from trainers.data.corpus import (
    Corpus,
    EvaluationSet,
    describe_fingerprint_change,
)
from trainers.scores.evaluation import bleu_difference, score_bleu
from trainers.synthesis.job import validate_output_folder
from trainers.synthesis.shards import drop_duplicates, write_parallel
from trainers.training import config_flags

JOURNAL_FILE = "distill.json"
_VOCABULARY_SIZES = ("vocabulary_size", "source_vocabulary_size")
_LAYER_COUNTS = ("num_layers", "num_decoder_layers")


def student_config(
    teacher: kt.TransformerConfig,
    preset: str | None,
    assignments: Sequence[str],
) -> kt.TransformerConfig:
    """Returns the student's TransformerConfig, with the teacher's vocabulary.

    Without `preset`, it is the teacher's with one decoder layer. `assignments`
    lists changes, such as "d_model=256".
    """
    changes = config_flags.parse_assignments(assignments)
    sizes = {name: getattr(teacher, name) for name in _VOCABULARY_SIZES}
    for name, value in sizes.items():
        if changes.get(name, value) != value:
            raise InputError(
                f"Expected the teacher's {name}={value}, got {changes[name]}; "
                "omit it."
            )
    if preset is not None:
        vocabulary = [f"{name}={value}" for name, value in sizes.items()]
        return config_flags.make_config(preset, [*assignments, *vocabulary])
    return config_flags.change_config(
        teacher, {"num_decoder_layers": 1, **changes}
    )


def find_mismatch(
    student: kt.TransformerConfig, teacher: kt.TransformerConfig
) -> str:
    """Returns why layers do not fit, such as "d_model=64, not 128", or ""."""
    architecture = student.architecture()
    for name, expected in teacher.architecture().items():
        if name not in _LAYER_COUNTS and architecture[name] != expected:
            return f"{name}={architecture[name]}, not {expected}"
    return ""


class Step(typing.NamedTuple):
    """A command, as a module and its flags, or a function that replaces it.

    `output` exists once the step is finished.
    """

    title: str
    command: list[str]
    output: pathlib.Path
    function: Callable[[], int | None] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Distillation:
    """Settings of a distillation, from the flags.

    `config` is the student's. `split` is scored, unless it is None. `flags`
    maps "data", "workers", "tokenize", "synthesize" and "wmt" to more flags.
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
    def student(self) -> pathlib.Path:
        """Path of the student's model directory."""
        return self.folder / "student"

    @property
    def scored_files(self) -> list[pathlib.Path]:
        """Paths of the translations of the student and of the teachers."""
        return [self.folder / "scores" / n for n in ("student", "teacher")]

    def steps(self) -> list[Step]:
        """Returns the list of all Steps."""
        translations = self.folder / "translations"
        teachers = [teacher.path for teacher in self.teachers]
        steps = [self._translate(translations / "all", teachers)]
        if self.each_alone and len(teachers) > 1:
            for number, teacher in enumerate(teachers, 1):
                folder = translations / str(number)
                steps.append(self._translate(folder, [teacher]))
        synthetic = [step.output.parent for step in steps]
        mixture = self.folder / "corpus"
        steps += [
            self._mix(mixture, synthetic),
            self._prepare(mixture),
            self._train(),
        ]
        return steps + (self._score(mixture) if self.split else [])

    def _dataset_flags(self, dataset):
        return [
            f"--dataset={dataset}",
            f"--source_language={self.corpus.source_language}",
            f"--target_language={self.corpus.target_language}",
        ]

    def _translate(self, folder, teachers):
        models = [f"--model={teacher}" for teacher in teachers]
        command = [
            "trainers.synthesize",
            *self._dataset_flags(self.corpus.name),
            *self.flags["data"],
            *models,
            f"--output_dir={folder}",
            *self.flags["workers"],
            *self.flags["synthesize"],
        ]
        title = f"Translating by {' and '.join(map(str, teachers))}"
        return Step(title, command, folder / "manifest.json")

    def _mix(self, folder, synthetic):
        def mix():
            write_mixture(folder, self.corpus, synthetic, self.keep_original)

        output = folder / f"train.{self.corpus.target_language}"
        return Step("Mixing the corpus", ["mix"], output, mix)

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
        command = [
            "trainers.wmt",
            f"--prepared_dir={self.folder / 'data'}",
            f"--model_dir={self.student}",
            "--preset=base",
            *[f"--set={assignment}" for assignment in assignments],
        ]
        if self.init_layers:
            command.append(f"--init_layers_from={self.teachers[0].path}")
        # A later step scores the student.
        command += [*self.flags["tokenize"], "--noscore", *self.flags["wmt"]]
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
            *[f"--model={each.path}" for each in self.teachers],
            f"--input={corpus / self.split}.{self.corpus.source_language}",
            f"--output={teacher}",
        ]
        return [
            Step("Scoring the student", evaluate, student),
            Step("Translating by the teachers", translate, teacher),
        ]


def write_mixture(
    folder: pathlib.Path,
    corpus: Corpus,
    synthetic: Iterable[pathlib.Path],
    keep_original: bool,
) -> None:
    """Writes the student's corpus, `text:FOLDER/`; prints its size.

    Dev and test come from `corpus`. The train split has the distinct pairs of
    the folders `synthetic`, and of `corpus` with `keep_original`.
    """
    source, target = corpus.source_language, corpus.target_language

    def train_pairs():
        streams = [corpus.pairs("train")] if keep_original else []
        for each in synthetic:
            files = [each / f"train.{source}", each / f"train.{target}"]
            streams.append(aligned_lines(files))
        with ProgressBar("Mixing", None, "pairs") as bar:
            for pair in itertools.chain.from_iterable(streams):
                yield pair
                bar.update(1)

    remove_temporary_files(folder, "*")
    paths = [folder / f"train.{source}", folder / f"train.{target}"]
    num_pairs = write_parallel(paths, drop_duplicates(train_pairs()))
    for split in ("dev", "test"):
        if split in corpus.splits():
            held_out = corpus.evaluation_set(split)
            references = held_out.reference_streams()
            names = [f"{split}.{source}", f"{split}.{target}"]
            for number in range(1, len(references)):
                names.append(f"{split}.{target}.{number}")
            # Blank lines stand for missing references.
            rows = (
                [text or "" for text in row]
                for row in zip(held_out.sources, *references)
            )
            write_parallel([folder / name for name in names], rows)
    print(f"{num_pairs:,} different pairs.", flush=True)


def compare_bleu(
    paths: Iterable[pathlib.Path],
    evaluation_set: EvaluationSet,
    tokenize: str,
    output: pathlib.Path,
) -> list[str]:
    """Scores the files of student and teachers; returns lines to print."""
    indices = evaluation_set.scored_indices
    scored_set = evaluation_set.subset(indices)
    translations = []
    for path in paths:
        lines = read_sentences(path)
        translations.append([lines[index] for index in indices])
    student, teacher = (
        score_bleu(texts, scored_set, tokenize) for texts in translations
    )
    paired = bleu_difference(
        translations[0], translations[1], scored_set, tokenize
    )
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


def run_steps(
    steps: Sequence[Step],
    folder: pathlib.Path,
    settings: dict[str, typing.Any],
    run_command: Callable[[str, list[str]], int],
) -> int:
    """Runs the unfinished steps; returns 0 or a failed command's exit code."""
    finished = read_finished_commands(folder, settings)
    remove_temporary_files(folder, JOURNAL_FILE)
    for index, step in enumerate(steps):
        title = f"{step.title}, step {index + 1} of {len(steps)}"
        is_finished = finished[index : index + 1] == [step.command]
        if is_finished and step.output.exists():
            print(f"{title}: finished before.", flush=True)
            continue
        print(f"{title}.", flush=True)
        finished = finished[:index]
        _write_journal(folder, settings, finished)
        module, *arguments = step.command
        if step.function:
            code = step.function()
        else:
            code = run_command(module, arguments)
        if code:
            reason = f"failed with exit code {code}."
            if code > 128:
                reason = "was interrupted; the same command resumes."
            print(f"Step {index + 1} {reason}")
            return code
        finished.append(step.command)
        _write_journal(folder, settings, finished)
    return 0


def read_finished_commands(
    folder: pathlib.Path, settings: dict[str, typing.Any]
) -> list[list[str]]:
    """Returns the commands of the finished steps.

    `settings` is a JSON dict of all that changes the student. Raises InputError
    if the folder holds a distillation with other settings, or other files.
    """
    validate_output_folder(folder, JOURNAL_FILE, "distillation.lock")
    path = folder / JOURNAL_FILE
    if not path.exists():
        return []
    try:
        with explain_read_errors(path):
            content = json.loads(path.read_text(encoding="utf-8"))
        previous = dict(content["settings"])
        finished = list(content["finished"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(
            f"{path} is not the journal of a distillation ({error!r}); give "
            "another --output_dir."
        ) from error
    for name, new in settings.items():
        old = previous.get(name)
        # Before a step is finished, other settings do no harm.
        if finished and old != new:
            change = f"{name} {old}, not {new}"
            if name == "fingerprint":
                change = describe_fingerprint_change(str(old), new)
            raise InputError(
                f"{folder} was begun with other settings ({change}); restore "
                "them, or give another --output_dir."
            )
    return finished


def _write_journal(folder, settings, finished):
    content = {"settings": settings, "finished": finished}
    write_json(folder / JOURNAL_FILE, content)
