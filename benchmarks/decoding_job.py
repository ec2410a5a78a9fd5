"""Workload and systems of the decoding benchmark.

Imports no framework, because the worker of an export must not.
"""

import dataclasses
import functools
import pathlib
import subprocess
import sys
import typing

import numpy as np
import sentencepiece

from benchmarks.harness.worker import ROOT, System
from export.common.errors import InputError
from export.lines.files import read_lines

_LAST_LINES = 15


@dataclasses.dataclass(frozen=True)
class DecodeBatch:
    """Sentences that are translated together, and their lengths in pieces."""

    texts: list[str]
    source_lengths: list[int]
    target_lengths: list[int]


@dataclasses.dataclass(frozen=True)
class DecodeJob:
    """Model, sentences and machine, the same for every system.

    `model` is the model directory, `prepared` the result of the system's
    `prepare`, `config` the configuration's fields with the beam size of this
    run, `search` a dict of this project's search flags. Lengths are in pieces
    with the end id; target lengths may be missing.
    """

    model: str
    prepared: str
    config: dict
    search: dict
    precision: str
    device: str
    cores: int
    sentences: list[str]
    source_lengths: list[int]
    target_lengths: list[int] = dataclasses.field(default_factory=list)

    @property
    def flags(self):
        """The search flags for export.saved_model."""
        return [f"--{name}={value}" for name, value in self.search.items()]

    def batches(self, size):
        """Returns DecodeBatches of `size` sentences, in order."""
        columns = self.sentences, self.source_lengths, self.target_lengths
        return [
            DecodeBatch(*(each[start : start + size] for each in columns))
            for start in range(0, len(self.sentences), size)
        ]

    def warm_up(self, peer, size):
        """Returns (text, score) of each sentence, in batches of `size`."""
        return [
            pair
            for batch in self.batches(size)
            for pair in peer.translate(batch)
        ]

    def calls(self, peer, size):
        """Returns calls for all sentences: one per batch, or a single one."""
        batches = self.batches(size)
        if hasattr(peer, "translate_all"):
            return [functools.partial(peer.translate_all, batches)]
        return [functools.partial(peer.translate, each) for each in batches]


class SentencePieces:
    """SentencePiece vocabulary of a model directory."""

    def __init__(self, model_dir):
        vocabulary = pathlib.Path(model_dir) / "vocabulary.model"
        if not vocabulary.is_file():
            raise InputError(
                f"There is no {vocabulary}; --model_dir must be a model "
                "directory, as trainers.wmt writes it."
            )
        self._processor = sentencepiece.SentencePieceProcessor(
            model_file=str(vocabulary)
        )

    def ids(self, texts):
        """Returns a list of ids for each text, with the end id."""
        return self._processor.encode(texts, add_eos=True)

    def pieces(self, texts):
        """Returns a list of pieces for each text, without the end."""
        return self._processor.encode(texts, out_type=str)

    def text(self, rows):
        """Decodes lists of ids or pieces."""
        return [self._processor.decode(row) for row in rows]

    def lengths(self, texts):
        """Returns the number of pieces of each text, with the end id."""
        return [len(ids) for ids in self.ids(texts)]


def read_sentences(path, count, pieces):
    """Returns evenly spaced sentences of a file, sorted by length in pieces."""
    lines = [line.strip() for line in read_lines(path) if line.strip()]
    if len(lines) < count:
        raise InputError(
            f"{path} has {len(lines)} sentences; --sentences={count} needs "
            "more text, or a smaller number."
        )
    chosen = [lines[number * len(lines) // count] for number in range(count)]
    lengths = dict(zip(chosen, pieces.lengths(chosen)))
    return sorted(chosen, key=lengths.__getitem__)


def load_model(job, dtype="float32"):
    """Loads a Transformer; unlike ModelDirectory, without TensorFlow."""
    import keras_transformer as kt

    model = kt.Transformer(kt.TransformerConfig(**job.config), dtype=dtype)
    model.load_weights(pathlib.Path(job.model) / "model.weights.h5")
    return model


def model_directory(job, folder):
    """Returns the model directory, for systems that read it."""
    del folder
    return job.model


def saved_model(job, folder):
    """Exports a SavedModel for the job's search; returns its path."""
    versions = folder / "export"
    _export(job, "export.saved_model", f"--export_dir={versions}")
    return versions / "1"


def onnx(job, folder):
    """Exports an ONNX file for the job's search; returns its folder."""
    path = folder / "onnx"
    _export(job, "export.onnx", f"--output_dir={path}")
    return path


def _export(job, command, output):
    done = subprocess.run(
        [
            *(sys.executable, "-m", command, "--nocheck"),
            *(f"--model_dir={job.model}", output, *job.flags),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.splitlines()[-_LAST_LINES:]
        raise InputError("\n".join(["The export failed:", *lines]))


def ctranslate2(job, folder, quantization="float32"):
    """Converts the model to CTranslate2; returns the folder."""
    from export.ctranslate2.ctranslate2_model import save_ctranslate2

    path = folder / f"ctranslate2-{quantization}"
    vocabulary = pathlib.Path(job.model, "vocabulary.model").read_bytes()
    save_ctranslate2(load_model(job), vocabulary, path, quantization)
    return path


def marian(job, folder):
    """Writes a MarianMTModel state dict as .npz; returns its path."""
    path = folder / "marian.npz"
    np.savez(path, **marian_state_dict(load_model(job)))
    return path


def marian_state_dict(model):
    """Returns a MarianMTModel state dict, name to float32 array.

    Unlike export.marian, it does not require sinusoidal positions.
    """
    from keras import ops

    from export.pretrained import weight_mapping

    config = model.config
    wanted = config.replace(
        norm="post",
        share_embeddings="all",
        attention_bias=True,
        activation="relu",
        attention_window=0,
    )
    if config != wanted or not config.heads_fill_model:
        raise InputError(
            "MarianMTModel is post-norm with shared embeddings, biases, ReLU "
            "and heads that fill d_model; remove transformers from --systems."
        )
    # Order of the residual stream's columns in MarianMTModel.
    columns = np.argsort(weight_mapping.marian_columns(config.d_model))

    def table(array):
        return np.float32(ops.convert_to_numpy(array))[:, columns]

    arrays = weight_mapping.layer_arrays(
        model, weight_mapping.layer_mappings(config, is_hugging_face=True)
    )
    embeddings = table(model.target_embedding.embeddings)
    rows = np.arange(config.max_positions, dtype="int32")
    for side, positions in (
        ("encoder", model.source_positions),
        ("decoder", model.target_positions),
    ):
        arrays[f"model.{side}.embed_tokens.weight"] = embeddings
        arrays[f"model.{side}.embed_positions.weight"] = table(
            positions.encode(rows)
        )
    return arrays | {
        "model.shared.weight": embeddings,
        "lm_head.weight": embeddings,
        "final_logits_bias": np.zeros((1, len(embeddings)), np.float32),
    }


@dataclasses.dataclass(frozen=True)
class DecodeSystem(System):
    """A System of DecodeJobs.

    Its peer has `translate(batch)`, which returns (text, score) of each
    sentence, and optionally `translate_all(batches)`. `prepare` is a function
    of a DecodeJob and an output folder that returns the path for the system to
    read. `search` has this project's search flags, None for other programs.
    """

    prepare: typing.Callable = model_directory
    search: dict | None = None
    translates: bool = True


def _ours(stop_criterion="heuristic", **options):
    return DecodeSystem(
        "ours_translator:Ours",
        "tensorflow_text",
        options=options,
        search={"stop_criterion": stop_criterion},
    )


def _served(stop_criterion="heuristic", search=(), **options):
    return DecodeSystem(
        "ours_served:Served",
        "tensorflow_text",
        options=options,
        prepare=saved_model,
        search={"stop_criterion": stop_criterion, **dict(search)},
    )


def _onnx(**search):
    return DecodeSystem(
        "ours_onnx:Onnx",
        "onnxruntime",
        prepare=onnx,
        search={"stop_criterion": "k_finished", **search},
    )


_ct2 = functools.partial(
    DecodeSystem,
    "ctranslate2_translator:CTranslate2",
    "ctranslate2",
    prepare=ctranslate2,
)
_products = functools.partial(
    DecodeSystem, "products:DecodeProducts", translates=False
)
_ON_BOTH = {
    "ctranslate2": _ct2(),
    "ctranslate2-side-by-side": _ct2(options={"parallel_batches": 2}),
    "ctranslate2-int8": _ct2(
        prepare=functools.partial(ctranslate2, quantization="int8")
    ),
    "transformers": DecodeSystem(
        "marian:Translator", "transformers", "torch", prepare=marian
    ),
    "products": _products(),
}
SYSTEMS = {
    "tensorflow": {
        "ours": _ours(),
        "ours-exact": _ours("exact"),
        "ours-finished": _ours("k_finished"),
        "ours-side-by-side": _ours(parallel_batches=True),
        "ours-finished-side-by-side": _ours(
            "k_finished", parallel_batches=True
        ),
        "ours-compiled": _ours(compiled=True),
        "ours-finished-compiled": _ours("k_finished", compiled=True),
        "ours-aligned": _ours(method="align"),
        "ours-n-best": _ours(method="n_best"),
        "ours-served": _served(),
        "ours-served-exact": _served("exact"),
        "ours-served-finished": _served("k_finished"),
        "ours-served-frozen": _served("k_finished", frozen=True),
        "ours-served-int8": _served("k_finished", {"quantization": "int8"}),
        "ours-onnx": _onnx(),
        "ours-onnx-int8": _onnx(quantization="int8"),
        **_ON_BOTH,
        "products-xla": _products(options={"xla": True}),
    },
    "jax": {"ours": DecodeSystem("ours_jax:Search"), **_ON_BOTH},
}
