"""Workload and systems of the training benchmark.

Batches have random ids, with sentence lengths of a corpus.
"""

import csv
import dataclasses
import functools
import math
import pathlib
import typing

import numpy as np

import keras_transformer as kt
from benchmarks.harness.worker import System, repeat_for
from export.common.errors import InputError
from keras_transformer.config import BEGIN_ID, END_ID, PAD_ID
from trainers.batches.packed import plan_packed
from trainers.batches.token_pairs import TokenPairs, make_batch
from trainers.cost.flops import step_products, weight_products

# Tatoeba English-German (169,813 pairs), in tokens of its own 37,000 joint BPE
# pieces with the end id.
DEFAULT_TABLE = pathlib.Path(__file__).with_name("tatoeba_en_de_lengths.csv")
# Length of a packed row, the trainer's default.
ROW_TOKENS = 128
_COLUMNS = ["source", "target", "pairs"]
# Packed rows come in multiples of 8, and are shortened to fill all of them,
# with this many positions per token.
_ROW_MULTIPLE, _POSITIONS_PER_TOKEN = 8, 1.02
_SEED = 1


@dataclasses.dataclass(frozen=True)
class StepBatch:
    """Random ids, padded like a real batch.

    `source` is int32 [B, S]; `target` and `labels` are int32 [B, T].
    """

    source: np.ndarray
    target: np.ndarray
    labels: np.ndarray

    @property
    def pad_ids(self):
        """The model's inputs, one pair per row, and the labels."""
        return {"source": self.source, "target": self.target}, self.labels

    @property
    def target_tokens(self):
        """Number of target tokens without padding."""
        return int((self.labels != PAD_ID).sum())


@dataclasses.dataclass(frozen=True)
class StepJob:
    """Model, batches and machine, the same for every system.

    `precision` is a Keras dtype policy, `device` "cpu" or "gpu", `cores` the
    number of threads on a CPU.
    """

    config: kt.TransformerConfig
    precision: str
    device: str
    batches: list[StepBatch]
    cores: int

    def warm_up(self, peer, number):
        """Makes an update with a batch; returns its loss."""
        return peer.run(number)

    def calls(self, peer, number, seconds):
        """Yields updates with a batch for at least `seconds`."""
        return repeat_for(lambda: peer.run(number), seconds)


def read_lengths(path):
    """Returns source lengths and target lengths, each int64 [pairs].

    The CSV file has source and target lengths in tokens, with the end id, and
    their number of pairs.
    """
    try:
        with pathlib.Path(path).open(encoding="utf-8", newline="") as stream:
            header, *rows = csv.reader(stream)
        table = np.array(rows, np.int64)
        if header != _COLUMNS or table.ndim != 2 or table.min() < 1:
            raise ValueError("other columns, or a number below 1")
    except (OSError, ValueError) as error:
        raise InputError(
            f"Expected {path} to be a CSV file with the header "
            f"source,target,pairs and whole numbers from 1 on ({error})."
        ) from error
    source, target, pairs = table.T
    return np.repeat(source, pairs), np.repeat(target, pairs)


def make_batches(lengths, vocabulary_size, tokens, number):
    """Returns StepBatches of pairs in the order of a shuffled corpus.

    Each has as many pairs as fit in `tokens` positions per side, and pads each
    side to its longest, as most toolkits do. `lengths` are source and target
    lengths, two int64 [pairs].
    """
    random = np.random.default_rng(_SEED)
    order = random.permutation(len(lengths[0]))
    batches = []
    for _ in range(number):
        longest = np.maximum.accumulate(np.maximum(*lengths)[order])
        positions = longest * np.arange(1, len(order) + 1)
        rows = max(int((positions <= tokens).sum()), 1)
        source, labels = (
            _random_ids(side[order[:rows]], vocabulary_size, random)
            for side in lengths
        )
        target = np.roll(labels, 1, axis=1)
        target[:, 0] = BEGIN_ID
        target[labels == PAD_ID] = PAD_ID
        batches.append(StepBatch(source, target, labels))
        order = np.roll(order, -rows)
    return batches


def _random_ids(lengths, vocabulary_size, random):
    shape = len(lengths), lengths.max()
    ids = random.integers(END_ID + 1, vocabulary_size, shape, dtype=np.int32)
    position = np.arange(lengths.max())
    ids[position == lengths[:, None] - 1] = END_ID
    ids[position >= lengths[:, None]] = PAD_ID
    return ids


def pack(batch):
    """Returns inputs and labels of a StepBatch's pairs in packed rows."""
    sides = batch.source, batch.labels
    source, target = ((side != PAD_ID).sum(axis=1) for side in sides)
    ids = np.concatenate(sides, axis=1)
    pairs = TokenPairs(
        [(ids[ids != PAD_ID], np.stack([source, target], axis=1))]
    )
    positions = _POSITIONS_PER_TOKEN * max(source.sum(), target.sum())
    rows = _ROW_MULTIPLE * math.ceil(positions / ROW_TOKENS / _ROW_MULTIPLE)
    # Enough positions for all pairs in one batch.
    capacity = 2 * (batch.source.size + batch.labels.size)
    row_tokens = math.ceil(positions / rows)
    [packed] = plan_packed(source, target, capacity, row_tokens, _SEED).epoch(0)
    return make_batch(pairs, packed, packed=True)


def model_work(job, batch):
    """Returns the products of a step that involve weights."""
    return weight_products(*_sizes(job, batch))


def trainer_work(job, batch):
    """Like `model_work`, without logits of padding on CPUs."""
    return weight_products(*_sizes(job, batch), _logit_positions(job, batch))


def packed_work(job, batch):
    """Like `trainer_work`, for packed pairs."""
    inputs, labels = pack(batch)
    sizes = *inputs["source"].shape, labels.shape[1]
    return weight_products(job.config, *sizes, _logit_positions(job, batch))


def step_work(job, batch):
    """Returns all products of a step, including attention."""
    return step_products(*_sizes(job, batch))


def _sizes(job, batch):
    return job.config, *batch.source.shape, batch.target.shape[1]


def _logit_positions(job, batch):
    return batch.target_tokens if job.device == "cpu" else None


@dataclasses.dataclass(frozen=True)
class StepSystem(System):
    """A System of StepJobs.

    Its peer has `run(number)`, which makes an update with that batch, waits for
    it and returns the loss. `work` is a function of a StepJob and a StepBatch
    that returns the Products whose FLOPs are counted.
    """

    work: typing.Callable = model_work


_torch = functools.partial(StepSystem, keras_backend="torch")
_ON_BOTH = {
    "products": StepSystem("products:StepProducts", work=step_work),
    "transformers": _torch("marian:make_step", "transformers"),
    "transformers-compiled": _torch(
        "marian:make_step", "transformers", options={"compiled": True}
    ),
    "torch": _torch("torch_transformer:make_step"),
    "torch-compiled": _torch(
        "torch_transformer:make_step", options={"compiled": True}
    ),
}
SYSTEMS = {
    "tensorflow": {
        "ours": StepSystem("keras_fit:ours", work=trainer_work),
        "ours-packed": StepSystem(
            "keras_fit:ours", work=packed_work, options={"packed": True}
        ),
        "ours-jit": StepSystem("keras_fit:ours", options={"jit": True}),
        "keras-hub": StepSystem("keras_hub_layers:make", "keras_hub"),
        **_ON_BOTH,
    },
    "jax": {
        "ours": StepSystem("ours_jax:Step"),
        "ours-packed": StepSystem(
            "ours_jax:Step", work=packed_work, options={"packed": True}
        ),
        **_ON_BOTH,
    },
}
