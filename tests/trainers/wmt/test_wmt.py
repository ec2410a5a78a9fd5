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

FIGURE = r"([\d.,]+)"
REPORT = re.compile(
    rf"step (\d+)/120: loss {FIGURE}, perplexity {FIGURE}, accuracy {FIGURE}%"
    r", learning rate ([\d.e+-]+), [\d,]+ tokens/s, [\d:]+ left"
)


def _by_step(folder):
    scalars = event_files.scalars(folder)
    return {tag: dict(values) for tag, values in scalars.items()}


def _after(lines, mark):
    return lines[lines.index(mark) + 1 :]


@pytest.fixture(scope="module")
def lines(trained):
    return trained.result.out.splitlines()


def test_it_ends_well(trained):
    assert trained.result.code == 0, trained.result.raw_err
    assert "Traceback" not in trained.result.raw_err


def test_no_warning_is_shown_to_a_newcomer(trained):
    assert trained.result.err == ""


def test_tensorflows_start_up_notes_are_kept_away(trained):
    """Some cannot be; these can, by TF_CPP_MIN_LOG_LEVEL before its import."""
    notes = [
        line
        for line in trained.result.raw_err.splitlines()
        if re.search(r"cpu_feature_guard|dataset\.cc|auto_shard", line)
    ]
    assert notes == []


def test_it_says_what_it_works_on(lines, trained):
    assert lines[:5] == [
        f"Data: {trained.dataset}, en to xx, splits train, dev, test.",
        "Training a vocabulary of 64 pieces.",
        "Normalisation nmt_nfkc changes 0.00% of the source characters, 0.00% "
        "of the target characters.",
        f"train: 200 pairs, {_target_tokens(trained, 'train')} target tokens.",
        f"dev: 12 pairs, {_target_tokens(trained, 'dev')} target tokens.",
    ]
    assert lines[5].startswith("Model: 5,536 parameters, on 1 device.")


def _target_tokens(trained, split):
    translator = Translator.from_directory(trained.path)
    corpus = open_corpus(trained.dataset, cipher.SOURCE, cipher.TARGET)
    targets = [target for _, target in corpus.pairs(split)]
    ids = translator.tokenizer.encode(targets)
    return f"{sum(map(len, ids)):,}"


def test_progress_comes_early_and_as_often_as_asked(lines):
    reports = [REPORT.fullmatch(line) for line in lines]
    steps = [int(match[1]) for match in reports if match]
    assert steps == [1, 10, 40, 80, 120]
    dev = [line for line in lines if re.match(r"step \d+: dev loss", line)]
    assert [line.partition(":")[0] for line in dev] == [
        "step 50",
        "step 100",
        "step 120",
    ]


def test_it_learns(lines):
    losses = [float(m[2]) for m in map(REPORT.fullmatch, lines) if m]
    assert losses[-1] < losses[0] - 1


def test_tensorboard_gets_what_the_terminal_gets(lines, trained):
    logs = _by_step(trained.path / "logs" / "train")
    assert set(logs) == {
        "loss",
        "perplexity",
        "accuracy",
        "learning_rate",
        "tokens_per_second",
    }
    for match in filter(None, map(REPORT.fullmatch, lines)):
        step = int(match[1])
        assert f"{logs['loss'][step]:.3f}" == match[2]
        assert f"{logs['perplexity'][step]:.2f}" == match[3]
        assert f"{logs['accuracy'][step]:.1%}" == f"{match[4]}%"
        rate = 16**-0.5 * min(step**-0.5, step * 40**-1.5)
        assert logs["learning_rate"][step] == pytest.approx(rate, rel=1e-5)
        assert logs["tokens_per_second"][step] > 0


def test_tensorboard_gets_the_dev_split(lines, trained):
    logs = _by_step(trained.path / "logs" / "dev")
    assert set(logs) == {"loss", "perplexity", "accuracy"}
    for step in (50, 100, 120):
        figures = {name: values[step] for name, values in logs.items()}
        assert (
            f"step {step}: dev loss {figures['loss']:.3f}, "
            f"perplexity {figures['perplexity']:.2f}, "
            f"accuracy {figures['accuracy']:.1%}"
        ) in lines
        # Label smoothing holds the loss above the plain cross-entropy.
        assert math.log(figures["perplexity"]) < figures["loss"] + 0.1


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


def test_five_samples_are_shown_with_their_references(lines, trained):
    corpus = open_corpus(trained.dataset, cipher.SOURCE, cipher.TARGET)
    pairs = dict(corpus.pairs("test"))
    shown = [line for line in lines if line.startswith("  source:      ")]
    assert len(shown) == 5
    for line in shown:
        translation, reference = _after(lines, line)[:2]
        source = line.removeprefix("  source:      ")
        assert translation.startswith("  translation:")
        assert reference == f"  reference:   {pairs[source]}"


def test_it_ends_with_what_to_do_next(lines):
    assert _after(lines, "Next:") == [
        "  tensorboard --logdir runs/tiny-en-xx/logs",
        "  python -m export.saved_model --model_dir runs/tiny-en-xx "
        "--export_dir exports/tiny-en-xx",
    ]


def test_the_model_directory_is_as_designed(trained):
    names = {path.name for path in trained.path.iterdir()}
    assert names == {
        "config.json",
        "run.json",
        "vocabulary.model",
        "model.weights.h5",
        "checkpoints",
        "logs",
        "data",
        "scores.json",
        "training.json",
    }
    assert Checkpoints(trained.path / "checkpoints", 5).steps() == [
        50,
        100,
        120,
    ]
    # Nothing half-written, and nothing outside the model directory.
    hidden = [p for p in trained.folder.rglob(".*") if p.is_file()]
    assert hidden == []
    others = {p.name for p in trained.folder.iterdir()} - {"runs"}
    assert all(name.startswith("toy.") for name in others)


def test_the_weights_are_those_of_the_last_step(trained):
    saved = weights_files.of_a_checkpoint(
        trained.path / "checkpoints" / "step-00000120.npz"
    )
    for one, other in zip(
        weights_files.in_order(saved.values()),
        weights_files.of_the_model(trained.path),
        strict=True,
    ):
        assert np.array_equal(one, other)


def test_the_weights_to_use_come_without_the_optimizers(trained):
    """Adam's moments would make the file three times as large."""
    strays = [
        n
        for n in weights_files.arrays(trained.path)
        if n.startswith("optimizer")
    ]
    assert strays == []


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
