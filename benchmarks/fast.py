"""Times a teacher and its student, and says what the speed costs in BLEU.

    python benchmarks/fast.py --teacher=runs/demo --student=out/student \
        --target_pieces=out/corpus/train.fr

Ours with the whole output layer and with that of the target pieces, and the
student in CTranslate2, float32 and int8, at beam 4 and 1. All translate the
first sentences of the teacher's test split one by one and 32 at a time; they
take turns, and the shortest of --rounds visits counts. BLEU is of the whole
split; `beside the teacher` is the difference to the first row, with its 95 %
interval by paired bootstrap.
"""

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

from benchmarks.decoding.job import DecodeJob
from benchmarks.decoding.systems import ctranslate2, ctranslate2_int8
from benchmarks.harness import report
from benchmarks.peers.ctranslate2_translator import CTranslate2
from export import command
from export.model_directory import ModelDirectory
from export.translators.batches import BATCH_TOKENS
from export.translators.load import load_translator
from trainers import processes
from trainers.corpora import open_corpus
from trainers.scores import bleu_tokenizers
from trainers.scores.metrics import score_bleu
from trainers.scores.paired import bleu_difference

FLAGS = flags.FLAGS
flags.adopt_module_key_flags(bleu_tokenizers)

flags.DEFINE_string("teacher", None, "Model directory.", required=True)
flags.DEFINE_string("student", None, "Model directory.", required=True)
flags.DEFINE_multi_string(
    "target_pieces", None, "As of export.translate.", required=True
)
flags.DEFINE_integer("sentences", 128, "How many are timed.", lower_bound=1)
flags.DEFINE_integer("rounds", 5, "Visits of each system.", lower_bound=1)
flags.DEFINE_string("output", None, "Where the table goes too, a .md file.")

_SIZES = (1, 32)
# Some libraries' threads wait busily for more work at first.
_PAUSE = 0.3


@dataclasses.dataclass
class _System:
    name: str
    beam: int
    translate: types.FunctionType
    seconds: dict


def main(_):
    """Runs the command."""
    run = ModelDirectory(FLAGS.teacher).read_run()
    names = ("dataset", "source_language", "target_language")
    test = open_corpus(*(run[name] for name in names)).evaluation_set("test")
    scored = test.only(test.scored)
    tokenize = bleu_tokenizers.choose(run["target_language"], FLAGS.tokenize)
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        systems = _systems(pathlib.Path(folder))
        _time(systems, list(scored.sources[: FLAGS.sentences]))
        load = (
            f"load average {before:.1f} before, {os.getloadavg()[0]:.1f} after"
        )
        said = [_all(system, list(scored.sources)) for system in systems]
    lines = [
        "| | beam | sentences/s, one by one | sentences/s, 32 at a time | BLEU "
        "| beside the teacher |",
        "|---|---|---|---|---|---|",
    ]
    for system, texts in zip(systems, said):
        speeds = [FLAGS.sentences / min(system.seconds[s]) for s in _SIZES]
        found = bleu_difference(texts, said[0], scored, tokenize)
        bleu = score_bleu(texts, scored, tokenize)
        lines.append(
            f"| {system.name} | {system.beam} | {speeds[0]:.1f} | "
            f"{speeds[1]:.0f} | {bleu.score:.2f} | {found.difference:+.2f} "
            f"({found.low:+.2f} to {found.high:+.2f}) |"
        )
    end = f"{len(scored.sources):,} sentences, {bleu.signature}; {load}."
    head = report.line("benchmarks/fast.py", sys.argv[1:], "tensorflow")
    report.publish("\n".join([head, "", *lines, "", end]), FLAGS.output)


def _systems(folder):
    student = pathlib.Path(FLAGS.student)
    found = []
    for beam in (4, 1):
        for name, path in (("teacher", FLAGS.teacher), ("student", student)):
            for layer, more in (
                ("", {}),
                (", target pieces", {"target_pieces": FLAGS.target_pieces}),
            ):
                search = {"beam_size": beam, **more}
                ours = load_translator([path], BATCH_TOKENS, search)
                found.append(_System(name + layer, beam, _asking(ours), {}))
        for name, make in (
            ("student, CTranslate2 float32", ctranslate2),
            ("student, CTranslate2 int8", ctranslate2_int8),
        ):
            peer = CTranslate2(_job(student, beam, make(student, folder)))
            found.append(_System(name, beam, _asking_peer(peer), {}))
    return found


def _job(student, beam, prepared):
    config = ModelDirectory(student).read_config().replace(beam_size=beam)
    return DecodeJob(
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
