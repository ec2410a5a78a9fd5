"""The training on JAX, run as a user runs it."""

import csv
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
WORDS = [
    *("a", "red", "dog", "and", "the", "blue", "cat", "see"),
    *("one", "big", "tree", "near", "my", "old", "house"),
]


def run(arguments, backend="tensorflow", stdin=None):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": backend},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(name="prepared", scope="module")
def fixture_prepared(tmp_path_factory):
    """Sentences of these words; a translation has them in capitals."""
    folder = tmp_path_factory.mktemp("jax")
    generator = np.random.default_rng(1)
    for split, count in (("train", 600), ("dev", 20), ("test", 20)):
        lines = [
            " ".join(generator.choice(WORDS, generator.integers(3, 9)))
            for _ in range(count)
        ]
        text = "\n".join(lines) + "\n"
        (folder / f"{split}.en").write_text(text, encoding="utf-8")
        (folder / f"{split}.xx").write_text(text.upper(), encoding="utf-8")
    run(
        [
            *("-m", "trainers.prepare", f"--dataset=text:{folder}/"),
            *("--source_language=en", "--target_language=xx"),
            *("--vocabulary_size=90", f"--output_dir={folder / 'data'}"),
        ]
    )
    return folder / "data"


def train(prepared, output, *more):
    done = run(
        [
            *("benchmarks/jax_training.py", f"--prepared_dir={prepared}"),
            *(f"--output_dir={output}", "--preset=tiny"),
            *("--precision=float32", "--set=batch_tokens=512", *more),
        ],
        backend="jax",
    )
    with (output / "losses.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [int(row["step"]) for row in rows] == list(range(1, len(rows) + 1))
    return done.stderr, np.array([float(row["loss"]) for row in rows])


@pytest.mark.slow
def test_the_weights_translate_with_tensorflow_too(prepared, tmp_path):
    pytest.importorskip("jax")
    said, losses = train(
        prepared,
        tmp_path,
        *("--train_steps=400", "--set=warmup_steps=100"),
    )
    # Words and their capitals are soon learnt.
    assert losses[0] > 4.0
    assert losses[-1] < 1.5
    assert "target tokens/s" in said
    assert "20 sentences" in said
    test = prepared.parent / "test.en"
    done = run(
        ["-m", "export.translate", f"--model={tmp_path}", "--scores"],
        stdin=test.read_text(encoding="utf-8"),
    )
    found = [line.split("\t") for line in done.stdout.splitlines()]
    wanted = [
        line.split("\t")
        for line in (tmp_path / "test.txt")
        .read_text(encoding="utf-8")
        .splitlines()
    ]
    assert [text for _, text in found] == [text for _, text in wanted]
    np.testing.assert_allclose(
        [float(score) for score, _ in found],
        [float(score) for score, _ in wanted],
        rtol=1e-3,
        atol=1e-4,
    )


@pytest.mark.slow
def test_a_seed_decides_the_losses(prepared, tmp_path):
    pytest.importorskip("jax")
    losses = [
        train(
            prepared,
            tmp_path / str(number),
            *("--train_steps=4", "--notranslate", f"--seed={seed}"),
        )[1]
        for number, seed in enumerate((1, 1, 2))
    ]
    np.testing.assert_array_equal(losses[0], losses[1])
    assert (losses[0] != losses[2]).all()
    assert not (tmp_path / "0" / "test.txt").exists()
