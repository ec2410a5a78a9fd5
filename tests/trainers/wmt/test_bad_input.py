"""What a user may get wrong: one clear line, exit code 2, nothing written."""

import pytest

from tests.trainers import cipher, commands
from tests.trainers.data.memory_corpus import prepare
from trainers.data import open_corpus

TEXTS = [source for source, _ in cipher.sentences(200, seed=0)]


def _lines(texts):
    return "".join(f"{text}\n" for text in texts).encode()


SOURCE = _lines(TEXTS)
TARGET = _lines(map(cipher.encipher, TEXTS))
GOOD = {"toy.train.en": SOURCE, "toy.train.xx": TARGET}
ONE, TWO = b"yz\n", b"ba\ndo\n"
BAD_DEV = GOOD | {"toy.dev.en": TWO, "toy.dev.xx": ONE + b"\xff\n"}
BAD_TEST = GOOD | {"toy.test.en": TWO, "toy.test.xx": ONE}

# Files, flags after good ones, and a pattern of the message. Those of fields,
# data sets and initial weights are tested where they are checked.
REFUSALS = [
    ({}, "", r"train.*toy\.train\.en"),
    ({"toy.train.en": SOURCE}, "", r"toy\.train\.xx"),
    # Before training, not after days of it.
    (BAD_DEV, "", r"toy\.dev\.xx"),
    (BAD_TEST, "", r"toy\.test\.xx"),
    (
        GOOD,
        "--set=source_vocabulary_size=64 --set=share_embeddings=none",
        "source_vocabulary_size",
    ),
    (GOOD, "--dataset=what", "what"),
    (GOOD, "--target_language=en", "en"),
    (GOOD, "--set=vocabulary_size=4000", "4000"),
    (GOOD, f"--model_dir={'m' * 300}", "mmm"),
    (GOOD, "train", "'train'"),
    (
        GOOD,
        "--ema=0.9 --set=average_checkpoints=2",
        "--ema.*average_checkpoints",
    ),
    (GOOD, "--keep_best --average_checkpoints=2", "--keep_best"),
    (GOOD, "--row_tokens=64", "--row_tokens.*--batching=pack"),
    (GOOD, "--init_from=elsewhere", "elsewhere"),
    (GOOD, "--init_from=one --init_layers_from=two", "--init_layers_from"),
    (GOOD, "--dev_f1_sentences=3", "--dev_f1_sentences"),
    (GOOD, "--strategy=multiworker", "TF_CONFIG"),
    (GOOD, "--logical_cpus=2", "--logical_cpus.*--strategy=mirrored"),
    (
        GOOD,
        "--set=positions=learned --set=max_positions=3",
        "max_positions",
    ),
]


def _write(folder, files):
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _names(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _arguments(*more):
    # One step, in case something is not refused.
    fixed = ("--dataset=text:toy", "--train_steps=1", "--nojit")
    return (*commands.MINUTE, *fixed, *more)


def test_refusals(worker, tmp_path):
    for number, (files, flags, message) in enumerate(REFUSALS):
        folder = tmp_path / f"{number}"
        _write(folder, files)
        result = worker.wmt(*_arguments(*flags.split()), folder=folder)
        commands.assert_one_clear_line(result, message)
        assert _names(folder) == set(files), flags


def test_the_corrected_command_works(worker, tmp_path):
    """A mistake must not spoil the directory for what comes after it."""
    _write(tmp_path, GOOD | {"toy.dev.en": TWO, "toy.dev.xx": ONE})
    arguments = _arguments("--model_dir=m")
    assert worker.wmt(*arguments, folder=tmp_path).code == 2
    (tmp_path / "toy.dev.xx").write_bytes(ONE + ONE)
    result = worker.wmt(*arguments, folder=tmp_path)
    assert result.code == 0, result.err


@pytest.mark.parametrize("flag", ["--prepared_dir=data", "--dataset=trees:my"])
def test_trees_are_not_text(worker, tmp_path, flag):
    """Neither raw nor prepared, and before anything is written."""
    (tmp_path / "my.train.ptb").write_text("(S (NP (NN cell) (NNS walls)))\n")
    corpus = open_corpus(f"trees:{tmp_path}/my", None, None)
    prepare(tmp_path / "data", corpus, max_unknown=1)
    before = _names(tmp_path)
    result = worker.wmt("--train_steps=1", flag, folder=tmp_path)
    commands.assert_one_clear_line(result, "trees")
    assert _names(tmp_path) == before
