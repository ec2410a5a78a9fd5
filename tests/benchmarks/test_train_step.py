"""The benchmark of a training step."""

import collections
import importlib.util
import math
import pickle

import numpy as np
import pytest

import keras_transformer as kt
from benchmarks.training_job import (
    DEFAULT_TABLE,
    StepJob,
    make_batches,
    pack,
    packed_work,
    read_lengths,
    trainer_work,
)
from export.common.errors import InputError
from tests.benchmarks.commands import rows_of, run, run_alone
from trainers.cost.flops import flops

LENGTHS = "source,target,pairs\n3,4,30\n4,2,10\n9,7,5\n"


@pytest.fixture(name="lengths")
def fixture_lengths(tmp_path):
    path = tmp_path / "lengths.csv"
    path.write_text(LENGTHS, encoding="utf-8")
    return path


def tiny_run(lengths, systems, *more):
    done = run_alone(
        "train_step",
        *("--size=tiny", "--device=cpu", "--rounds=2", "--warm_up=1"),
        *("--visit_seconds=0", "--tokens=64", "--shapes=2"),
        *(f"--lengths={lengths}", f"--systems={','.join(systems)}", *more),
    )
    assert done.code == 0, done.err
    rows = rows_of(done.out)
    assert [row["system"] for row in rows] == list(systems)
    return rows, done.out


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_the_table_of_our_step_and_the_products(lengths, backend, monkeypatch):
    pytest.importorskip(backend)
    monkeypatch.setenv("KERAS_BACKEND", backend)
    systems = ["ours", "products", "ours-packed"]
    more = ["--alone"] if backend == "jax" else []
    (ours, products, packed), page = tiny_run(lengths, systems, *more)
    tiny = kt.Transformer(kt.TransformerConfig.preset("tiny"))
    for row in (ours, packed):
        assert row["parameters"] == f"{tiny.count_params():,}"
        loss = float(row["loss at step 0"])
        assert math.log(4000) - 0.1 < loss < math.log(4000) + 1.5
    seconds = float(ours["seconds a step"])
    rate = ours["target tokens/s (quartiles)"].split()[0].replace(",", "")
    # A batch's real tokens; medians over rounds are not exactly inverse.
    assert 20 < seconds * float(rate) < 64
    ratio = "ours / it (quartiles)"
    assert ours[ratio] == "-" != packed[ratio]
    assert float(ours["of the products' rate"].split()[0]) > 0
    assert products["parameters"] == "-"
    assert "--tokens=64" in page


@pytest.mark.slow
@pytest.mark.parametrize("peer", ["keras-hub", "transformers", "torch"])
def test_a_peer_computes_the_same_things(lengths, peer):
    package = peer.replace("-", "_")
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed (requirements-bench.txt)")
    (ours, other), _ = tiny_run(lengths, ["ours", peer])
    counts = [int(row["parameters"].replace(",", "")) for row in (ours, other)]
    assert counts[1] == pytest.approx(counts[0], rel=0.001)
    losses = [float(row["loss at step 0"]) for row in (ours, other)]
    assert losses[1] == pytest.approx(losses[0], abs=0.3)


def test_batches_take_the_pairs_as_they_come():
    random = np.random.default_rng(5)
    lengths = random.integers(2, 30, (2, 500))
    seen = []
    for batch in make_batches(lengths, 50, 200, 3):
        assert batch.source.max() < 50
        real = batch.labels != 0
        rows = np.arange(len(real))
        assert (batch.labels[rows, real.sum(axis=1) - 1] == 3).all()
        assert (batch.target[:, 0] == 2).all()
        shifted = batch.target[:, 1:][real[:, 1:]]
        assert (shifted == batch.labels[:, :-1][real[:, 1:]]).all()
        assert batch.target_tokens == real.sum()
        sides = [
            (side != 0).sum(axis=1) for side in (batch.source, batch.labels)
        ]
        # Pairs are of 29 at most.
        assert len(rows) >= 200 // 29
        assert len(rows) * max(map(np.max, sides)) <= 200
        seen += zip(*(side.tolist() for side in sides))
    left = collections.Counter(zip(*lengths.tolist()))
    assert not collections.Counter(seen) - left


def test_packing_keeps_every_pair():
    [batch] = make_batches(read_lengths(DEFAULT_TABLE), 50, 1024, 1)
    inputs, labels = pack(batch)
    assert (labels != 0).sum() == batch.target_tokens
    assert labels.size < 1.3 * batch.target_tokens < batch.labels.size
    packed = collections.Counter()
    for row, segments in enumerate(inputs["target_segments"]):
        source, of_source = inputs["source"][row], inputs["source_segments"]
        for number in range(1, segments.max() + 1):
            pair = source[of_source[row] == number], labels[row]
            packed[tuple(pair[0]), tuple(pair[1][segments == number])] += 1
    assert packed == collections.Counter(
        (tuple(source[source != 0]), tuple(target[target != 0]))
        for source, target in zip(batch.source, batch.labels)
    )
    # To the workers it goes through a pipe.
    job = StepJob(
        kt.TransformerConfig.preset("tiny"), "float32", "cpu", [batch], 1
    )
    copy = pickle.loads(pickle.dumps(job)).batches[0]
    np.testing.assert_array_equal(copy.labels, batch.labels)
    # Packed rows have fewer positions, and as many logits.
    assert flops(packed_work(job, batch)) < flops(trainer_work(job, batch))


def test_what_is_no_table_of_lengths_is_refused(tmp_path):
    source, target = read_lengths(DEFAULT_TABLE)
    assert len(source) == len(target) == 169_813
    assert min(source.min(), target.min()) >= 2
    path = tmp_path / "lengths.csv"
    for text in (
        "",
        "source,target\n1,2\n",
        f"{LENGTHS}0,1,1\n",
        f"{LENGTHS}x",
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match="lengths.csv"):
            read_lengths(path)
    done = run("train_step", "--size=tiny", f"--lengths={path}")
    assert done.code == 2
    assert str(path) in done.err
    assert "Traceback" not in done.err
