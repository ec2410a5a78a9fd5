"""Times a teacher and its student, and says what the speed costs in BLEU.

    python benchmarks/fast.py --teacher=runs/demo --student=out/student \
        --target_pieces=out/corpus/train.fr

Ours with the whole output layer, with that of the target pieces and with a
shortlist; with --served the first and the last of these also as exports in
TensorFlow Serving's way of running them, each in a process of its own; with
--compiled the last of them compiled, which takes sentences one by one; teacher
and student in CTranslate2, float32, and the student in int8, at each beam. All
translate the first sentences of the teacher's test split one by one and 32 at a
time; they take turns, and the shortest of --rounds visits counts. BLEU is of
the whole split; `beside the teacher` is the difference to the first row, with
its 95 % interval by paired bootstrap.
--noscore leaves both out, for widened models, which say what small ones do.
"""

import contextlib
import dataclasses
import os
import pathlib
import sys
import tempfile
import time
import types

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.decoding.job import AskedJob
from benchmarks.decoding.systems import (
    choose_decoders,
    ctranslate2,
    ctranslate2_int8,
    export_once,
)
from benchmarks.harness import report
from benchmarks.harness.worker import Worker
from benchmarks.peers.ctranslate2_translator import CTranslate2
from export import command
from export.model_directory import ModelDirectory
from export.translators import search_flags, shortlist_flag
from export.translators.batches import BATCH_TOKENS
from export.translators.load import load_translator
from trainers import processes
from trainers.corpora import open_corpus
from trainers.scores import bleu_tokenizers
from trainers.scores.metrics import bleu_difference, score_bleu

FLAGS = flags.FLAGS
flags.adopt_module_key_flags(bleu_tokenizers)
flags.adopt_module_key_flags(shortlist_flag)

flags.DEFINE_string("teacher", None, "Model directory.", required=True)
flags.DEFINE_string("student", None, "Model directory.", required=True)
flags.DEFINE_multi_string("target_pieces", [], "As of export.translate.")
flags.DEFINE_list("beams", ["4", "1"], "Beams of each search.")
flags.DEFINE_boolean("score", True, "Whether BLEU is measured.")
flags.DEFINE_boolean("served", False, "Whether exports are timed too.")
flags.DEFINE_boolean("compiled", False, "Whether ours is timed compiled too.")
flags.DEFINE_integer("sentences", 128, "How many are timed.", lower_bound=1)
flags.DEFINE_integer("rounds", 5, "Visits of each system.", lower_bound=1)
flags.DEFINE_string("output", None, "Where the table goes too, a .md file.")

_SIZES = (1, 32)
_SHORTLIST = ("shortlist", "shortlist_size")
# Some libraries' threads wait busily for more work at first.
_PAUSE = 0.3


@dataclasses.dataclass
class _System:
    name: str
    beam: int
    translate: types.FunctionType
    sizes: tuple = _SIZES
    seconds: dict = dataclasses.field(default_factory=dict)

    def speed(self, size, form):
        """Returns the sentences a second at a batch size, as text."""
        if size not in self.sizes:
            return ""
        return format(FLAGS.sentences / min(self.seconds[size]), form)


def main(_):
    """Runs the command."""
    run = ModelDirectory(FLAGS.teacher).read_run()
    names = ("dataset", "source_language", "target_language")
    test = open_corpus(*(run[name] for name in names)).evaluation_set("test")
    scored = test.only(test.scored)
    tokenize = bleu_tokenizers.choose(run["target_language"], FLAGS.tokenize)
    before = os.getloadavg()[0]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        systems = _systems(pathlib.Path(folder), stack)
        _time(systems, list(scored.sources[: FLAGS.sentences]))
        load = (
            f"load average {before:.1f} before, {os.getloadavg()[0]:.1f} after"
        )
        said = []
        if FLAGS.score:
            said = [_all(system, list(scored.sources)) for system in systems]
    lines = [
        "| | beam | sentences/s, one by one | sentences/s, 32 at a time |",
        "|---|---|---|---|",
    ]
    for system in systems:
        speeds = map(system.speed, _SIZES, (".1f", ".0f"))
        cells = system.name, str(system.beam), *speeds
        lines.append(f"| {' | '.join(cells)} |")
    end = f"{load}."
    if FLAGS.score:
        scores, signature = _scores(said, scored, tokenize)
        lines = [line + score for line, score in zip(lines, scores)]
        end = f"{len(scored.sources):,} sentences, {signature}; {end}"
    head = report.line("benchmarks/fast.py", sys.argv[1:], "tensorflow")
    report.publish("\n".join([head, "", *lines, "", end]), FLAGS.output)


def _scores(said, scored, tokenize):
    """Returns the columns of BLEU, a list of str, and its signature."""
    columns = [" BLEU | beside the teacher |", "---|---|"]
    for texts in said:
        found = bleu_difference(texts, said[0], scored, tokenize)
        bleu = score_bleu(texts, scored, tokenize)
        columns.append(f" {bleu.score:.2f} | {found.cell} |")
    return columns, bleu.signature


def _systems(folder, stack):
    """Returns the list of _System; what must end is entered in the stack."""
    models = {
        "teacher": pathlib.Path(FLAGS.teacher),
        "student": pathlib.Path(FLAGS.student),
    }
    ways = {"": {}}
    if FLAGS.target_pieces:
        ways[", target pieces"] = {"target_pieces": FLAGS.target_pieces}
    if FLAGS.shortlist:
        ways[", shortlist"] = search_flags.given(*_SHORTLIST)
    found = []
    for beam in map(int, FLAGS.beams):
        for name, path in models.items():
            found += _ours(name, path, beam, ways, folder, stack)
        for name, number_format, make in (
            ("teacher", "float32", ctranslate2),
            ("student", "float32", ctranslate2),
            ("student", "int8", ctranslate2_int8),
        ):
            path, place = models[name], folder / name
            place.mkdir(exist_ok=True)
            peer = CTranslate2(_job(path, beam, make(path, place)))
            name = f"{name}, CTranslate2 {number_format}"
            found.append(_System(name, beam, _asking_peer(peer)))
    return found


def _ours(name, path, beam, ways, folder, stack):
    """Yields the _System of each way that one model of ours is run."""
    last = [*ways][-1]
    for way, search in ways.items():
        asking = _asking(_loaded(path, beam, search))
        yield _System(name + way, beam, asking)
    for way in dict.fromkeys(("", last)) if FLAGS.served else ():
        place = folder / f"{name}{way}-{beam}"
        options = _options({**ways[way], "beam_size": beam})
        job = _job(path, beam, export_once(path, place, *options))
        worker = stack.enter_context(Worker(name, _served(), job))
        yield _System(f"{name}{way}, served", beam, _asking_served(worker))
    if FLAGS.compiled:
        asking = _asking(_loaded(path, beam, ways[last], ["compiled"]))
        yield _System(f"{name}{last}, compiled", beam, asking, (1,))


def _loaded(path, beam, search, wanted=()):
    search = {**search, "beam_size": beam}
    return load_translator([path], BATCH_TOKENS, search, wanted)


def _served():
    return choose_decoders("tensorflow", ["ours-served"])["ours-served"]


def _options(search):
    """Returns the flags of export.saved_model for a search."""
    listed = {
        name: value if isinstance(value, list) else [value]
        for name, value in search.items()
    }
    return [
        f"--{name}={each}" for name, values in listed.items() for each in values
    ]


def _job(student, beam, prepared):
    config = ModelDirectory(student).read_config().replace(beam_size=beam)
    return AskedJob(
        model=str(student),
        prepared=str(prepared),
        config=dataclasses.asdict(config),
        precision="float32",
        device="cpu",
        cores=processes.processor_count(),
        sentences=[],
        source_lengths=[],
    )


def _asking(translator):
    return lambda texts: [each.text for each in translator.translate(texts)]


def _asking_served(worker):
    return lambda texts: [text for text, _ in worker.warm_up(texts)]


def _asking_peer(peer):
    def ask(texts):
        batch = types.SimpleNamespace(texts=texts)
        return [text for text, _ in peer.translate(batch)]

    return ask


def _time(systems, sentences):
    """Fills `seconds`: of all sentences, a list for each size."""
    for size in _SIZES:
        batches = [
            sentences[start : start + size]
            for start in range(0, len(sentences), size)
        ]
        for number in range(FLAGS.rounds + 1):
            for system in systems:
                if size not in system.sizes:
                    continue
                time.sleep(_PAUSE)
                started = time.perf_counter()
                for batch in batches:
                    system.translate(batch)
                seconds = time.perf_counter() - started
                # The first round is a warm-up.
                if number:
                    system.seconds.setdefault(size, []).append(seconds)
            print(f"size {size}, round {number}", file=sys.stderr, flush=True)


def _all(system, sentences):
    found = []
    for start in range(0, len(sentences), 32):
        found += system.translate(sentences[start : start + 32])
    return found


if __name__ == "__main__":
    command.run(main)
