"""What a user may get wrong: one clear line, exit code 2, nothing left."""

import pathlib

import pytest

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

# Which files lie there, and what is said of them.
BAD_FILES = {
    "none": ({}, r"no 'train' split.*toy\.train\.en"),
    "one side": ({"toy.train.en": SOURCE}, r"toy\.train\.xx"),
    "unequal": (
        GOOD | {"toy.train.xx": TARGET + b"zv\n"},
        r"toy\.train\.en has 200, .*toy\.train\.xx has 201",
    ),
    "empty": (
        {"toy.train.en": b"", "toy.train.xx": b""},
        "train split of text:toy holds no sentence pair",
    ),
    "blank": (
        {"toy.train.en": b"\n \n", "toy.train.xx": b"\n\n"},
        "train split of text:toy holds no sentence pair",
    ),
    "not UTF-8": (
        GOOD | {"toy.train.en": SOURCE.replace(b"\n", b"\xff\n")},
        r"Line 1 of .*toy\.train\.en is not UTF-8",
    ),
    "not UTF-8 late": (
        {
            "toy.train.en": SOURCE + b"caf\xe9\n",
            "toy.train.xx": TARGET + b"zv\n",
        },
        r"Line 201 of .*toy\.train\.en is not UTF-8",
    ),
    "dev unequal": (
        GOOD | {"toy.dev.en": b"ba\ndo\n", "toy.dev.xx": b"yz\n"},
        r"toy\.dev\.en has 2, .*toy\.dev\.xx has 1",
    ),
    "dev not UTF-8": (
        GOOD | {"toy.dev.en": b"ba\ndo\n", "toy.dev.xx": b"yz\n\xff\n"},
        r"Line 2 of .*toy\.dev\.xx is not UTF-8",
    ),
    # Found before training, not after days of it.
    "test unequal": (
        GOOD | {"toy.test.en": b"ba\ndo\n", "toy.test.xx": b"yz\n"},
        r"toy\.test\.en has 2, .*toy\.test\.xx has 1",
    ),
}

# Flags after good ones, and what is said of them.
BAD_FLAGS = {
    "preset": (["--preset=tinier"], "no preset 'tinier'; there are: base"),
    "field": (["--set=width=7"], "no field 'width'; there are: vocab"),
    "no value": (["--set=dropout"], "must be name=value"),
    "type": (["--set=num_layers=two"], "num_layers must be of type int"),
    "range": (["--set=dropout=1"], "dropout must be at least 0 and below 1"),
    "not a number": (["--set=dropout=nan"], "dropout must be at least 0"),
    "infinite": (["--set=learning_rate_scale=inf"], "learning_rate_scale"),
    "choice": (["--set=norm=middle"], "norm must be post or pre"),
    "source vocabulary": (
        ["--set=source_vocabulary_size=64", "--set=share_embeddings=none"],
        "source_vocabulary_size=64 is a source vocabulary of its own, but .* "
        "one vocabulary for both languages; leave source_vocabulary_size out",
    ),
    "source vocabulary, shared": (
        ["--set=source_vocabulary_size=64"],
        "source_vocabulary_size must be 0 with share_embeddings=all",
    ),
    "steps": (["--train_steps=0"], "train_steps must be at least 1"),
    "batch": (["--batch_tokens=0"], "batch_tokens must be at least 1"),
    "data set": (["--dataset=what is it"], "Unknown data set 'what is it'"),
    "TFDS": (["--dataset=no_such/de-en"], "no 'no_such/de-en'"),
    "prefix": (["--dataset=text:gone/toy"], "Cannot list gone"),
    "language": (["--target_language=yy"], r"toy\.train\.yy"),
    "one language": (["--target_language=en"], "both 'en'"),
    "too large": (
        ["--set=vocabulary_size=4000"],
        "4000 pieces is too large for this text",
    ),
    "much too large": (["--set=vocabulary_size=9999999999"], "9999999999"),
    "too small": (
        ["--set=vocabulary_size=7"],
        "7 pieces is too small for this text",
    ),
    "long name": ([f"--model_dir={'m' * 300}"], "File name too long"),
    "a file": (["--model_dir=toy.train.en"], "toy.train.en"),
    "below a file": (["--model_dir=toy.train.en/m"], "toy.train.en/m"),
    "argument": (["train"], "Unknown argument 'train'; flags begin with --"),
    "two averages": (
        ["--ema=0.9", "--average_checkpoints=2"],
        "cannot both make the final weights",
    ),
    "for packed rows alone": (
        ["--row_tokens=64"],
        "--row_tokens says nothing about --batching=length; leave it out, or "
        "add --batching=pack",
    ),
    "average by --set": (
        ["--ema=0.9", "--set=average_checkpoints=2"],
        "--ema=0.9 and --set=average_checkpoints=2 cannot both make",
    ),
    "average as another number": (
        ["--keep_best", "--set=average_checkpoints=02"],
        "--set=average_checkpoints=2 and --keep_best=True cannot both make",
    ),
    "nobody": (["--dataset=text:~no-such-user/a"], "names no folder"),
    "best and average": (
        ["--keep_best", "--average_checkpoints=2"],
        "--average_checkpoints=2 and --keep_best=True cannot both make",
    ),
    "no model to begin with": (
        ["--init_from=elsewhere"],
        "elsewhere must be a model directory",
    ),
    "two models to begin with": (
        ["--init_from=one", "--init_layers_from=other"],
        "leave out one of them",
    ),
    "of parsers": (["--dev_f1_sentences=3"], "is of parsers; leave it out"),
    "no data for workers": (
        ["--strategy=multiworker"],
        "needs the environment variable TF_CONFIG",
    ),
    "positions": (
        ["--set=positions=learned", "--set=max_positions=3"],
        "max_positions",
    ),
}

# Flags that absl itself refuses, in its own words, with exit code 1.
REFUSED_FLAGS = [
    "--strategy=two",
    "--shapes=-1",
    "--accumulate=0",
    "--ema=1",
    "--batching=random",
    "--patience=-1",
    "--report_steps=0",
    "--keep_checkpoints=0",
    "--precision=float16",
    "--train_steps=many",
    "--checkpoint_minutes=nan",
    "--train_minutes=inf",
    "--no_such_flag",
    "--seed=-1",
    "--train_minutes=-1",
    "--checkpoint_steps=-1",
]


def _write(folder, files):
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _names(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _arguments(*more):
    # One step, in case that something is not refused.
    return (
        *commands.MINUTE,
        "--dataset=text:toy",
        "--train_steps=1",
        "--nojit",
        *more,
    )


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files(worker, tmp_path, name):
    files, message = BAD_FILES[name]
    _write(tmp_path, files)
    result = worker.wmt(*_arguments("--model_dir=m"), folder=tmp_path)
    commands.assert_one_clear_line(result, message)
    assert _names(tmp_path) == set(files)


@pytest.mark.parametrize("name", BAD_FLAGS)
def test_bad_flags(worker, tmp_path, name):
    flags, message = BAD_FLAGS[name]
    _write(tmp_path, GOOD)
    result = worker.wmt(*_arguments(*flags), folder=tmp_path)
    commands.assert_one_clear_line(result, message)
    assert _names(tmp_path) == set(GOOD)


@pytest.mark.parametrize("flag", REFUSED_FLAGS)
def test_flags_that_are_refused_at_once(worker, tmp_path, flag):
    _write(tmp_path, GOOD)
    result = worker.wmt(*_arguments(flag), folder=tmp_path)
    assert result.code in (1, 2)
    assert flag.strip("-").partition("=")[0] in result.err
    assert "Traceback" not in result.err
    assert _names(tmp_path) == set(GOOD)


def test_put_right_the_same_command_works(worker, tmp_path):
    """A mistake must not spoil the directory for what comes after it."""
    _write(tmp_path, GOOD | {"toy.dev.en": b"ba\ndo\n", "toy.dev.xx": b"yz\n"})
    arguments = _arguments("--model_dir=m")
    assert worker.wmt(*arguments, folder=tmp_path).code == 2
    (tmp_path / "toy.dev.xx").write_bytes(b"yz\nwh\n")
    result = worker.wmt(*arguments, folder=tmp_path)
    assert result.code == 0, result.err


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--set=d_ff=24", "d_ff=16, not 24"),
        ("--seed=7", "seed=1, not 7"),
        ("--set=vocabulary_size=60", "vocabulary_size=64, not 60"),
    ],
)
def test_a_directory_of_another_training_is_not_touched(
    trained, worker, flag, message
):
    def contents():
        return {
            path: path.read_bytes()
            for path in trained.folder.rglob("*")
            if path.is_file()
        }

    before = contents()
    result = worker.wmt(*trained.arguments, flag, folder=trained.folder)
    commands.assert_one_clear_line(result, message)
    assert "--model_dir" in result.err
    assert contents() == before


def test_trees_are_no_text(worker, tmp_path):
    """Neither as they stand nor prepared, and before anything is made."""
    (tmp_path / "my.train.ptb").write_text("(S (NP (NN cell) (NNS walls)))\n")
    corpus = open_corpus(f"trees:{tmp_path}/my", None, None)
    made = {"vocabulary": vocabulary(), "max_unknown": 1}
    prepare_corpus(tmp_path / "data", corpus, 64, 99, 1, **made)
    before = _names(tmp_path)
    for name, flags in {
        "data": ["--prepared_dir=data"],
        "trees:my": ["--dataset=trees:my"],
    }.items():
        result = worker.wmt("--train_steps=1", *flags, folder=tmp_path)
        commands.assert_one_clear_line(
            result, f"{name} holds trees, but text was expected"
        )
        assert _names(tmp_path) == before


@pytest.mark.slow
def test_the_same_in_a_process_of_its_own(tmp_path):
    files, message = BAD_FILES["not UTF-8 late"]
    _write(tmp_path, files)
    result = commands.wmt_alone(*_arguments(), folder=tmp_path)
    commands.assert_one_clear_line(result, message)
    assert _names(tmp_path) == set(files)


def test_help_tells_defaults_and_units(tmp_path):
    result = commands.wmt("--help", folder=tmp_path)
    # absl's own code for having helped.
    assert result.code in (0, 1)
    for words in (
        "--train_minutes",
        "(default: '0.0')",
        "(default: 'tatoeba-en-fr')",
        "Minutes between checkpoints",
        "Updates between reports",
    ):
        assert words in result.out
    assert list(pathlib.Path(tmp_path).iterdir()) == []
