"""`python -m trainers.wmt` as a user runs it, from data to a score."""

import json
import math
import re
import shlex
import shutil

import numpy as np
import pytest
import sacrebleu

from export.translators.translator import Translator
from tests.trainers import cipher, event_files
from tests.trainers.wmt import weights_files
from trainers.data import open_corpus
from trainers.training.checkpoints import Checkpoints
from trainers.training.progress import to_text

FIGURE = r"([\d.,]+)"
REPORT = re.compile(
    rf"step (\d+)/120: loss {FIGURE}, perplexity {FIGURE}, accuracy {FIGURE}%"
    r", learning rate ([\d.e+-]+), [\d,]+ tokens/s, [\d:]+ left"
)


def _by_step(folder):
    scalars = event_files.scalars(folder)
    return {tag: dict(values) for tag, values in scalars.items()}


@pytest.fixture(scope="module")
def lines(trained):
    return trained.result.out.splitlines()


def test_it_ends_well_without_warnings(trained):
    assert trained.result.code == 0, trained.result.raw_err
    assert trained.result.err == ""


def test_it_names_data_and_model(lines, trained):
    assert lines[0] == (
        f"Data: {trained.dataset}, en to xx, splits train, dev, test."
    )
    translator = Translator.from_directory(trained.path)
    corpus = open_corpus(trained.dataset, cipher.SOURCE, cipher.TARGET)
    for split, count in (("train", 200), ("dev", 12)):
        targets = [target for _, target in corpus.pairs(split)]
        tokens = sum(map(len, translator.tokenizer.encode(targets)))
        line = f"{split}: {count} pairs, {tokens:,} target tokens."
        assert line in lines
    assert any(line.startswith("Model: 5,536 parameters") for line in lines)


def test_it_reports_and_learns(lines):
    reports = [match for match in map(REPORT.fullmatch, lines) if match]
    assert [int(match[1]) for match in reports] == [1, 10, 40, 80, 120]
    losses = [float(match[2]) for match in reports]
    assert losses[-1] < losses[0] - 1
    dev = [line for line in lines if re.match(r"step \d+: dev loss", line)]
    steps = [line.partition(":")[0] for line in dev]
    assert steps == ["step 50", "step 100", "step 120"]


def test_tensorboard_gets_what_the_terminal_gets(lines, trained):
    logs = _by_step(trained.path / "logs" / "train")
    for match in filter(None, map(REPORT.fullmatch, lines)):
        step = int(match[1])
        assert f"{logs['loss'][step]:.3f}" == match[2]
        assert f"{logs['perplexity'][step]:.2f}" == match[3]
        assert f"{logs['accuracy'][step]:.1%}" == f"{match[4]}%"
        rate = 16**-0.5 * min(step**-0.5, step * 40**-1.5)
        assert logs["learning_rate"][step] == pytest.approx(rate, rel=1e-5)
        assert logs["tokens_per_second"][step] > 0
    logs = _by_step(trained.path / "logs" / "dev")
    assert set(logs) == {"loss", "perplexity", "accuracy"}
    for step in (50, 100, 120):
        metrics = {name: values[step] for name, values in logs.items()}
        assert f"step {step}: dev {to_text(metrics)}" in lines
        # Label smoothing holds the loss above the plain cross-entropy.
        assert math.log(metrics["perplexity"]) < metrics["loss"] + 0.1
    attention = trained.path / "logs" / "attention"
    assert event_files.translation_steps(attention) == [60, 120]


def test_the_score_is_that_of_the_translations(lines, trained):
    translator = Translator.from_directory(trained.path)
    corpus = open_corpus(trained.dataset, cipher.SOURCE, cipher.TARGET)
    pairs = list(corpus.pairs("test"))
    texts = [t.text for t in translator.translate([s for s, _ in pairs])]
    metric = sacrebleu.BLEU()
    bleu = metric.corpus_score(texts, [[t for _, t in pairs]])
    signature = str(metric.get_signature())
    (line,) = [line for line in lines if line.startswith("Test: ")]
    assert line == f"Test: {bleu.format(signature=signature)}"
    (record,) = json.loads((trained.path / "scores.json").read_text())
    for name in ("date", "hardware", "bootstrap", "chrf"):
        assert record.pop(name)
    low, high = record.pop("confidence_95")
    assert low <= high
    assert record.pop("compound_split_bleu")["score"] <= record["score"] + 1
    training = record.pop("training")
    assert training.pop("seconds") > 0
    assert training.pop("date") and training.pop("hardware")
    command = shlex.join(("python", "-m", "trainers.wmt", *trained.arguments))
    assert training == {"command": command, "runs": 1, "steps": 120}
    assert record == {
        "metric": "BLEU",
        "score": pytest.approx(bleu.score, abs=1e-4),
        "signature": signature,
        "dataset": trained.dataset,
        "source_language": "en",
        "target_language": "xx",
        "split": "test",
        "sentences": 8,
        "references": 8,
        "not_scored": 0,
        "reference_length": bleu.ref_len,
        "beam_size": 2,
        "alpha": 0.6,
        "length_penalty": "gnmt",
        "step": 120,
        "weights": "the last step",
        "parameters": 5536,
        "command": command,
    }


def test_it_ends_with_samples_and_what_to_do_next(lines, trained):
    corpus = open_corpus(trained.dataset, cipher.SOURCE, cipher.TARGET)
    pairs = dict(corpus.pairs("test"))
    samples = [
        (line, *lines[number + 1 : number + 3])
        for number, line in enumerate(lines)
        if line.startswith("  source:      ")
    ]
    assert len(samples) == 5
    for line, translation, reference in samples:
        source = line.removeprefix("  source:      ")
        assert translation.startswith("  translation:")
        assert reference == f"  reference:   {pairs[source]}"
    assert lines[lines.index("Next:") + 1 :] == [
        "  tensorboard --logdir runs/tiny-en-xx/logs",
        "  python -m export.saved_model --model_dir runs/tiny-en-xx "
        "--export_dir exports/tiny-en-xx",
    ]


def test_the_model_directory_is_as_designed(trained):
    names = {path.name for path in trained.path.iterdir()}
    assert names == {
        *("config.json", "run.json", "training.json", "scores.json"),
        *("vocabulary.model", "model.weights.h5"),
        *("checkpoints", "logs", "data"),
    }
    checkpoints = Checkpoints(trained.path / "checkpoints", 5)
    assert checkpoints.steps() == [50, 100, 120]
    # Nothing half-written, and nothing outside the model directory.
    hidden = [p for p in trained.folder.rglob(".*") if p.is_file()]
    assert hidden == []
    others = {p.name for p in trained.folder.iterdir()} - {"runs"}
    assert all(name.startswith("toy.") for name in others)


def test_the_weights_are_those_of_the_last_step(trained):
    path = trained.path / "checkpoints" / "step-00000120.npz"
    saved = weights_files.of_a_checkpoint(path)
    for one, other in zip(
        weights_files.in_order(saved.values()),
        weights_files.of_the_model(trained.path),
        strict=True,
    ):
        assert np.array_equal(one, other)
    # Without the optimizer's, which would make the file three times as large.
    names = weights_files.arrays(trained.path)
    assert not [name for name in names if name.startswith("optimizer")]


def test_the_same_command_again_trains_no_further(trained, worker, tmp_path):
    shutil.copytree(trained.folder, tmp_path, dirs_exist_ok=True)
    path = tmp_path / trained.path.relative_to(trained.folder)
    result = worker.wmt(*trained.arguments, folder=tmp_path)
    assert result.code == 0, result.err
    assert "Resuming from step 120." in result.out
    assert "step 121" not in result.out
    last = trained.result.out.splitlines()[-20:]
    assert result.out.splitlines()[-20:] == last
    before, after = (
        weights_files.arrays(trained.path),
        weights_files.arrays(path),
    )
    assert all(np.array_equal(before[name], after[name]) for name in before)
