"""What a user may get wrong: one clear line, exit code 2, nothing written."""

import pytest

from export.common.processes import folder_lock
from tests.trainers import cipher, commands
from tests.trainers.data.memory_corpus import vocabulary
from trainers.data import open_corpus
from trainers.data.preparation import prepare_corpus

TEXTS = [source for source, _ in cipher.sentences(200, seed=0)]


def _lines(texts):
    return "".join(f"{text}\n" for text in texts).encode()


SOURCE = _lines(TEXTS)
TARGET = _lines(map(cipher.encipher, TEXTS))
GOOD = {"toy.train.en": SOURCE, "toy.train.xx": TARGET}
ONE, TWO = b"yz\n", b"ba\ndo\n"

# Files, and a pattern of the message.
BAD_FILES = [
    ({}, r"train.*toy\.train\.en"),
    ({"toy.train.en": SOURCE}, r"toy\.train\.xx"),
    (
        GOOD | {"toy.train.xx": TARGET + ONE},
        r"train\.en .*200.*train\.xx .*201",
    ),
    ({"toy.train.en": b"\n \n", "toy.train.xx": b"\n\n"}, "train .*text:toy"),
    (
        {"toy.train.en": SOURCE + b"caf\xe9\n", "toy.train.xx": TARGET + ONE},
        r"[Ll]ine 201 .*toy\.train\.en",
    ),
    # Before training, not after days of it.
    (
        GOOD | {"toy.dev.en": TWO, "toy.dev.xx": ONE + b"\xff\n"},
        r"toy\.dev\.xx",
    ),
    (GOOD | {"toy.test.en": TWO, "toy.test.xx": ONE}, r"toy\.test\.xx"),
]
# Flags after good ones, and a pattern of the message.
BAD_FLAGS = [
    ("--preset=tinier", "tinier"),
    ("--set=width=7", "width"),
    ("--set=dropout=nan", "dropout"),
    ("--set=norm=middle", "norm"),
    (
        "--set=source_vocabulary_size=64 --set=share_embeddings=none",
        "source_vocabulary_size",
    ),
    ("--train_steps=0", "train_steps"),
    ("--batch_tokens=0", "batch_tokens"),
    ("--dataset=what", "what"),
    ("--dataset=no_such/de-en", "no_such/de-en"),
    ("--dataset=text:gone/toy", "gone"),
    ("--dataset=text:~no-such-user/a", "no-such-user"),
    ("--target_language=yy", r"toy\.train\.yy"),
    ("--target_language=en", "en"),
    ("--set=vocabulary_size=4000", "4000"),
    ("--set=vocabulary_size=9999999999", "9999999999"),
    ("--set=vocabulary_size=7", "7"),
    (f"--model_dir={'m' * 300}", "mmm"),
    ("--model_dir=toy.train.en", "toy.train.en"),
    ("--model_dir=toy.train.en/m", "toy.train.en/m"),
    ("train", "'train'"),
    ("--ema=0.9 --average_checkpoints=2", "--ema.*--average_checkpoints"),
    ("--ema=0.9 --set=average_checkpoints=2", "--ema.*average_checkpoints"),
    ("--keep_best --set=average_checkpoints=02", "average_checkpoints=2"),
    ("--keep_best --average_checkpoints=2", "--keep_best"),
    ("--row_tokens=64", "--row_tokens.*--batching=pack"),
    ("--init_from=elsewhere", "elsewhere"),
    ("--init_from=one --init_layers_from=other", "--init_layers_from"),
    ("--dev_f1_sentences=3", "--dev_f1_sentences"),
    ("--strategy=multiworker", "TF_CONFIG"),
    ("--set=positions=learned --set=max_positions=3", "max_positions"),
]
# Flags that absl itself refuses, with exit code 1.
ABSL_FLAGS = [
    *("--strategy=two", "--shapes=-1", "--accumulate=0", "--ema=1"),
    *("--batching=random", "--patience=-1", "--report_steps=0"),
    *("--keep_checkpoints=0", "--precision=float16", "--train_steps=many"),
    *("--checkpoint_minutes=nan", "--train_minutes=inf", "--no_such_flag"),
    *("--seed=-1", "--train_minutes=-1", "--checkpoint_steps=-1"),
]


def _write(folder, files):
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _names(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _arguments(*more):
    # One step, in case something is not refused.
    fixed = ("--dataset=text:toy", "--train_steps=1", "--nojit")
    return (*commands.MINUTE, *fixed, *more)


@pytest.mark.parametrize("case", range(len(BAD_FILES)))
def test_bad_files(worker, tmp_path, case):
    files, message = BAD_FILES[case]
    _write(tmp_path, files)
    result = worker.wmt(*_arguments("--model_dir=m"), folder=tmp_path)
    commands.assert_one_clear_line(result, message)
    assert _names(tmp_path) == set(files)


@pytest.mark.parametrize(("flags", "message"), BAD_FLAGS)
def test_bad_flags(worker, tmp_path, flags, message):
    _write(tmp_path, GOOD)
    result = worker.wmt(*_arguments(*flags.split()), folder=tmp_path)
    commands.assert_one_clear_line(result, message)
    assert _names(tmp_path) == set(GOOD)


def test_flags_that_absl_refuses(worker, tmp_path):
    for flag in ABSL_FLAGS:
        result = worker.wmt(*_arguments(flag), folder=tmp_path)
        assert result.code in (1, 2)
        assert flag.strip("-").partition("=")[0] in result.err
        assert "Traceback" not in result.err
    assert _names(tmp_path) == set()


def test_the_corrected_command_works(worker, tmp_path):
    """A mistake must not spoil the directory for what comes after it."""
    _write(tmp_path, GOOD | {"toy.dev.en": TWO, "toy.dev.xx": ONE})
    arguments = _arguments("--model_dir=m")
    assert worker.wmt(*arguments, folder=tmp_path).code == 2
    (tmp_path / "toy.dev.xx").write_bytes(ONE + ONE)
    result = worker.wmt(*arguments, folder=tmp_path)
    assert result.code == 0, result.err


def test_a_directory_of_another_training_is_not_touched(trained, worker):
    def contents():
        return {
            path: path.read_bytes()
            for path in trained.folder.rglob("*")
            if path.is_file()
        }

    before = contents()
    for flag in ("--set=d_ff=24", "--seed=7", "--set=vocabulary_size=60"):
        result = worker.wmt(*trained.arguments, flag, folder=trained.folder)
        commands.assert_one_clear_line(result, "--model_dir")
        assert contents() == before
    with folder_lock(trained.path, "training"):
        result = worker.wmt(*trained.arguments, folder=trained.folder)
        commands.assert_one_clear_line(result, "Another training")
    assert contents() == before


def test_trees_are_not_text(worker, tmp_path):
    """Neither raw nor prepared, and before anything is written."""
    (tmp_path / "my.train.ptb").write_text("(S (NP (NN cell) (NNS walls)))\n")
    corpus = open_corpus(f"trees:{tmp_path}/my", None, None)
    made = {"vocabulary": vocabulary(), "max_unknown": 1}
    prepare_corpus(tmp_path / "data", corpus, 64, 99, 1, **made)
    before = _names(tmp_path)
    for flag in ("--prepared_dir=data", "--dataset=trees:my"):
        result = worker.wmt("--train_steps=1", flag, folder=tmp_path)
        commands.assert_one_clear_line(result, "trees")
        assert _names(tmp_path) == before


def test_help_tells_defaults_and_units(tmp_path):
    result = commands.wmt("--help", folder=tmp_path)
    # absl's own code for having helped.
    assert result.code in (0, 1)
    for words in (
        "--train_minutes",
        "(default: '0.0')",
        "(default: 'tatoeba-en-fr')",
        "Minutes between checkpoints",
    ):
        assert words in result.out
    assert not _names(tmp_path)
