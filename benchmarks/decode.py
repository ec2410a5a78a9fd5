"""Compares the translation speed of this project and others in one run.

    python benchmarks/decode.py --model_dir=M --text=test.en --rounds=5

All systems have the same weights and translate the same texts, at each beam
and batch size. Each runs in its own process, and they alternate round by round.
Repeat --model_dir for a teacher and its student; trainers.evaluate prints BLEU.
"""

import os
import pathlib
import sys

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import dataclasses
import tempfile
import textwrap

import keras
import numpy as np

import keras_transformer as kt
from benchmarks.decoding_job import (
    SYSTEMS,
    DecodeJob,
    SentencePieces,
    read_sentences,
)
from benchmarks.harness import report
from benchmarks.harness.report import quartiles, ratio
from benchmarks.harness.turns import measure_systems, parse_numbers
from benchmarks.harness.worker import select_systems
from benchmarks.peers.products import step_shapes
from export.common import command, processes
from export.common.errors import InputError
from export.translators import search_flags

FLAGS = flags.FLAGS
search_flags.define_shortlist()

_PEER = "ctranslate2"
_WEIGHT_BYTES = {"float32": 4, "bfloat16": 2}
_HEADER = (
    "beam",
    "batch",
    "system",
    "target tokens/s (quartiles)",
    "own tokens/s",
    "sentences/s",
    "{ours} / it (quartiles)",
    "it / {peer} (quartiles)",
    "floor / it",
    "CPU seconds",
    "p50 ms",
    "p99 ms",
    "same text",
    "score differs by",
    "peak GiB",
)

flags.DEFINE_multi_string(
    "model_dir",
    None,
    "Model directory; benchmarks/widened.py makes a large one of a small one. "
    "Repeatable.",
    required=True,
)
flags.DEFINE_string(
    "text",
    None,
    "UTF-8 text to translate, a sentence a line; .gz too.",
    required=True,
)
flags.DEFINE_integer(
    "sentences", 128, "How many, from all over the text.", lower_bound=1
)
flags.DEFINE_list(
    "systems",
    [],
    "Names, separated by commas; ratios are to the first one. Default: all "
    "whose packages are installed. KERAS_BACKEND=tensorflow: "
    f"{', '.join(SYSTEMS['tensorflow'])}. KERAS_BACKEND=jax: "
    f"{', '.join(SYSTEMS['jax'])}. With --shortlist, each of ours is timed "
    "with it too.",
)
flags.DEFINE_list("beams", ["4", "1"], "Beam sizes.")
flags.DEFINE_list("batches", ["1", "8", "32", "128"], "Sentences in a batch.")
flags.DEFINE_integer(
    "rounds", 5, "How often each system is timed at each size.", lower_bound=1
)
flags.DEFINE_enum(
    "precision",
    "float32",
    ["float32", "bfloat16"],
    "Of weights and products; the int8 system keeps its own.",
)
flags.DEFINE_enum(
    "device", "auto", ["auto", "cpu", "gpu"], "auto is the GPU if there is one."
)


def main(_):
    backend = keras.backend.backend()
    systems = select_systems(SYSTEMS, backend, FLAGS.systems)
    if not any(system.translates for system in systems.values()):
        raise InputError(
            "No system of --systems translates; add ours, for example."
        )
    beams = parse_numbers("beams", FLAGS.beams)
    sizes = parse_numbers("batches", FLAGS.batches)
    for size in sizes:
        if FLAGS.sentences % size:
            raise InputError(
                f"--sentences={FLAGS.sentences} must be a multiple of each of "
                f"--batches, and is none of {size}."
            )
    pieces = SentencePieces(FLAGS.model_dir[0])
    sentences = read_sentences(FLAGS.text, FLAGS.sentences, pieces)
    entries = _entries(
        systems, [_job(path, sentences) for path in FLAGS.model_dir]
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for beam in beams:
            place = pathlib.Path(folder, str(beam))
            rows += _measure(entries, beam, sizes, place)
    notes = dict.fromkeys(f"- {row.name}: {row.note}." for row in rows)
    parts = [
        _table(rows),
        report.provenance("benchmarks/decode.py", sys.argv[1:], backend),
        "\n".join(notes),
        textwrap.fill(_explanation(rows, entries), 79),
    ]
    print("\n\n".join(parts))


def _job(model_dir, sentences):
    path = pathlib.Path(model_dir) / "config.json"
    config = kt.TransformerConfig.from_json(path.read_text(encoding="utf-8"))
    if config.length_penalty != "power":
        raise InputError(
            f"{path} has length_penalty={config.length_penalty!r}, which other "
            "programs lack; set it to 'power', as benchmarks/widened.py does."
        )
    return DecodeJob(
        model=model_dir,
        prepared="",
        config=dataclasses.asdict(config),
        search={},
        precision=FLAGS.precision,
        device=report.device(FLAGS.device),
        cores=processes.processor_count(),
        sentences=sentences,
        source_lengths=SentencePieces(model_dir).lengths(sentences),
    )


def _entries(systems, jobs):
    """Returns a dict of name in the table to (DecodeSystem, DecodeJob)."""
    searches = {"": {}}
    if FLAGS.shortlist:
        names = ("shortlist", "shortlist_size")
        searches["+shortlist"] = {
            name: FLAGS[name].value for name in names if FLAGS[name].value
        }
    entries = {}
    for job in jobs:
        prefix = f"{job.model}: " if len(jobs) > 1 else ""
        for name, system in systems.items():
            for suffix, search in searches.items():
                if system.search is not None:
                    search = system.search | search
                    own = dataclasses.replace(job, search=search)
                    entries[prefix + name + suffix] = system, own
                elif not suffix:
                    entries[prefix + name] = system, job
    return entries


def _measure(entries, beam, sizes, folder):
    """Returns the list of _Row for one beam size."""
    # `products` needs the lengths of translations, so it runs last.
    order = sorted(entries, key=lambda name: not entries[name][0].translates)
    jobs, prepared = {}, {}

    def make_job(name, answers):
        system, job = entries[name]
        search = job.search
        if system.search is not None:
            search = search | {"beam_size": beam}
        job = dataclasses.replace(
            job, config=job.config | {"beam_size": beam}, search=search
        )
        key = system.prepare, job.model, " ".join(job.flags)
        if key not in prepared:
            place = folder / str(len(prepared))
            place.mkdir(parents=True)
            prepared[key] = str(system.prepare(job, place))
        lengths = []
        for other, answer in answers.items():
            if jobs[other].model == job.model:
                texts = [text for text, _ in answer[sizes[0]]]
                lengths = SentencePieces(job.model).lengths(texts)
                break
        jobs[name] = dataclasses.replace(
            job, prepared=prepared[key], target_lengths=lengths
        )
        return jobs[name]

    systems = {name: entries[name][0] for name in order}
    results = measure_systems(systems, make_job, sizes, FLAGS.rounds)
    by_name = {each.name: each for each in results}
    return [
        _Row(by_name[name], by_name[order[0]], systems[name], jobs[name], size)
        for size in sizes
        for name in entries
    ]


class _Row:
    """Table row: one system at one beam and batch size."""

    def __init__(self, result, first, system, job, size):
        self.name, self.note = result.name, result.note
        self.model, self.translates = job.model, system.translates
        self.beam, self.size = job.config["beam_size"], size
        self.peak_bytes = result.peak_bytes
        timings = result.timings[size]
        self.seconds = [timing.seconds for timing in timings]
        self.cpu_seconds = [timing.cpu_seconds for timing in timings]
        # Latencies of single sentences, if each call was one sentence.
        self.latencies = [
            1000 * second
            for timing in timings
            if size == 1 and len(timing.each) == len(job.sentences)
            for second in timing.each
        ]
        pieces = SentencePieces(job.model)
        own, reference = result.warm_up[size], first.warm_up[size]
        self.tokens, self.own_tokens = (
            sum(pieces.lengths([text for text, _ in answers]))
            for answers in (reference, own)
        )
        same = [
            (score, expected)
            for (text, score), (other, expected) in zip(own, reference)
            if text == other
        ]
        self.same = len(same) / len(job.sentences)
        self.score_error = max(
            (abs(a - b) for a, b in same if None not in (a, b)), default=None
        )

    def cells(self, rows):
        """Returns the row's cells; `rows` share its beam and batch size."""
        seconds = quartiles(self.seconds).median
        same_model = [row for row in rows if row.model == self.model]
        floor = min(
            (row for row in same_model if not row.translates),
            key=lambda row: quartiles(row.seconds).median,
            default=None,
        )
        peer = next(
            (row for row in same_model if row.name.endswith(_PEER)), None
        )
        count = FLAGS.sentences
        latencies = ["-", "-"]
        if self.latencies and self.translates:
            latencies = [
                f"{each:.1f}"
                for each in np.percentile(self.latencies, [50, 99])
            ]
        error = self.score_error
        return [
            str(self.beam),
            str(self.size),
            self.name,
            f"{quartiles(self.tokens / each for each in self.seconds):,.0f}",
            f"{self.own_tokens / seconds:,.0f}" if self.translates else "-",
            f"{count / seconds:.2f}",
            _quotient(self, rows[0]),
            _quotient(peer, self),
            _quotient(floor, self),
            f"{quartiles(self.cpu_seconds).median:.3g}",
            *latencies,
            f"{self.same:.1%}" if self.translates else "-",
            "-" if error is None else f"{error:.1e}",
            f"{self.peak_bytes / 2**30:.2f}",
        ]


def _table(rows):
    """Returns a Markdown table; ratios are to the first row of each size."""
    header = [cell.format(ours=rows[0].name, peer=_PEER) for cell in _HEADER]
    cells = [
        row.cells(
            [
                each
                for each in rows
                if (each.beam, each.size) == (row.beam, row.size)
            ]
        )
        for row in rows
    ]
    return report.markdown_table(header, "rrl" + "r" * 12, cells)


def _quotient(row, other):
    """Returns the ratio of their times in the same rounds."""
    if row is None or other is None or row is other:
        return "-"
    return f"{ratio(row.seconds, other.seconds):.3f}"


def _explanation(rows, entries):
    _, job = next(iter(entries.values()))
    config = kt.TransformerConfig(**job.config)
    lengths = sorted(job.source_lengths)
    mean = rows[0].tokens / len(lengths)
    weights = sum(height * width for height, width in step_shapes(config))
    megabytes = _WEIGHT_BYTES[job.precision] * weights / 1e6
    return (
        f"{job.model}: {config.num_layers} layers in the encoder and "
        f"{config.decoder_layers} in the decoder, d_model {config.d_model}, "
        f"{config.vocabulary_size} pieces; length penalty length ** "
        f"{config.alpha}, {job.precision} on {job.device}. {len(lengths)} "
        f"sentences of {lengths[0]} to {lengths[-1]} pieces, median "
        f"{lengths[len(lengths) // 2]}, sorted by length; from text to text. "
        f"Target tokens are of the first system's translations, {mean:.1f} a "
        "sentence; own tokens are each system's. Same text and scores are "
        "compared with the first system's. The floor is the faster system of "
        "products, those with weights of the encoder and of decoder steps for "
        "the K hypotheses of unfinished sentences. A decoder step reads "
        f"{megabytes:.0f} MB of weights. Latencies are of single sentences."
    )


if __name__ == "__main__":
    command.run(main, any_backend=True)
