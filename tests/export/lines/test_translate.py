"""The command as users run it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest
import tensorflow as tf

from export.translators.translator import Translator
from tests import made_up_text, processes
from tests.export import commands, tiny

LONG = "ba bi " * 500
TEXTS = [*made_up_text.sentences()[:30], "", LONG, "  ", "b\u00e0 ka."]


@pytest.fixture(scope="module")
def alone(exported):
    """(exit code, lines, lines of stderr) of a process as a user's."""
    flags = ["--scores", "--alignments"]
    return commands.alone("export.translate", exported, TEXTS, *flags)


@pytest.fixture(scope="module")
def versions(exported, tmp_path_factory):
    """The folder of several versions; only the newest is one."""
    folder = tmp_path_factory.mktemp("versions")
    for name in ("2", "9", "models.config"):
        (folder / name).mkdir()
    shutil.copytree(exported, folder / "10")
    return folder


class Echo(tf.Module):
    """Gives back its text at once: for what is not of the translation."""

    def _of_text(function):
        text = tf.TensorSpec([None], tf.string, "text")
        return tf.function(function, input_signature=[text], autograph=False)

    @_of_text
    def serving_default(self, text):
        zeros = tf.zeros(tf.shape(text))
        return {"translation": text, "score": zeros, "truncated": zeros > 0}

    @_of_text
    def n_best(self, text):
        texts = tf.tile(text[:, None], [1, 4])
        zeros = tf.zeros(tf.shape(texts))
        return {
            "translations": texts,
            "scores": zeros,
            "truncated": zeros[:, 0] > 0,
        }

    @_of_text
    def lengths(self, text):
        length = tf.strings.length(text)
        return {"length": length, "limit": tf.fill(tf.shape(text), 16)}


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    """The export that gives back its text."""
    path, module = tmp_path_factory.mktemp("echo"), Echo()
    names = ("serving_default", "n_best", "lengths")
    signatures = {name: getattr(module, name) for name in names}
    tf.saved_model.save(module, str(path), signatures)
    return path


def start(model, *flags, **streams):
    return commands.start("export.translate", model, *flags, **streams)


def run(model, texts, *flags):
    return commands.run("export.translate", model, texts, *flags)


def check_scores(lines, expected):
    np.testing.assert_allclose(
        [float(line) for line in lines], [t.score for t in expected], atol=1e-4
    )


def check_aligned(lines, expected):
    """Lines of --scores and --alignments; returns texts and links."""
    scores, texts, links = zip(*[line.split("\t") for line in lines])
    check_scores(scores, expected)
    assert list(texts) == [t.text for t in expected]
    assert list(links) == [
        " ".join(f"{one}-{other}" for one, other in t.alignment)
        for t in expected
    ]
    return texts, links


def test_an_export_gives_a_line_for_a_line_in_order(
    alone, truncating_translator
):
    code, lines, err = alone
    assert code == 0
    texts, links = check_aligned(lines, truncating_translator.align(TEXTS))
    assert texts[30] == texts[32] == links[30] == ""
    assert links[0]
    assert len(err) == 1
    assert "1 of the lines (32)" in err[0]


def test_n_best_of_the_newest_version_in_a_folder(
    versions, truncating_translator
):
    _, lines, _ = run(versions, TEXTS, "--n_best=3")
    found = [
        (number, each)
        for number, three in enumerate(truncating_translator.n_best(TEXTS, 3))
        for each in three
    ]
    numbers, texts, scores = zip(*[line.split(" ||| ") for line in lines])
    assert list(numbers) == [str(number) for number, _ in found]
    assert list(texts) == [t.text for _, t in found]
    check_scores(scores, [t for _, t in found])


def test_a_model_directory_gives_the_same(model_path, translator):
    flags = ["--scores", "--alignments", "--batch_tokens=64"]
    code, lines, err = run(model_path, TEXTS, *flags)
    assert code == 0, err
    assert "1 of the lines (32)" in err[-1]
    # Its longest source is not the one that the export truncates to.
    lines = [line for line, text in zip(lines, TEXTS) if text != LONG]
    texts = [text for text in TEXTS if text != LONG]
    check_aligned(lines, translator.align(texts))


@pytest.mark.slow
def test_compiled_it_aligns_the_same(model_path, translator):
    flags = ["--compiled", "--scores", "--alignments"]
    code, lines, err = run(model_path, TEXTS[:6], *flags)
    assert code == 0, err
    check_aligned(lines, translator.align(TEXTS[:6]))


def test_a_model_directory_takes_a_search(model_path):
    flags = "--beam_size=6 --alpha=1 --max_extra_tokens=9 --min_length=2"
    flags = [*flags.split(), "--stop_criterion=k_finished", "--n_best=6"]
    code, lines, err = run(model_path, TEXTS[:4], *flags)
    assert code == 0, err
    found = Translator.from_directory(
        model_path,
        beam_size=6,
        alpha=1.0,
        max_extra_tokens=9,
        min_length=2,
        stop_criterion="k_finished",
    ).n_best(TEXTS[:4], 6)
    assert [line.split(" ||| ")[1] for line in lines] == [
        each.text for six in found for each in six
    ]


@pytest.mark.parametrize(
    "flags",
    [
        ["--beam_size=2"],
        ["--alpha=1", "--max_extra_tokens=3"],
        ["--min_length=0"],
        ["--stop_criterion=k_finished"],
        ["--compiled"],
        ["--prefixes=/dev/null"],
        ["--compiled", "--batch_tokens=9"],
        ["--n_best=5"],
        ["--alignments", "--n_best=2"],
        ["--input=/nowhere/at/all"],
        ["--output=/nowhere/at/all"],
        ["--output=/"],
        ["--model={}/none"],
        ["--model={}"],
    ],
)
def test_refusals_are_one_line_and_2(echo, tmp_path, flags):
    flags = [flag.format(tmp_path) for flag in flags]
    model = echo
    if flags[0].startswith("--model"):
        model = flags.pop(0).partition("=")[2]
    code, lines, err = run(model, TEXTS[:2], *flags)
    assert (code, lines) == (2, [])
    line = err[-1]
    assert line.startswith("Error: ")
    assert all(flag.partition("=")[0] in line for flag in flags)
    assert flags or model in line


@pytest.mark.parametrize("is_standard", [True, False])
def test_a_file_is_not_written_over_itself(echo, tmp_path, is_standard):
    path = tmp_path / "in"
    path.write_text("ba.\n", encoding="utf-8")
    flags = [f"--output={path}"] + [f"--input={path}"] * (not is_standard)
    with path.open() as source, tempfile.TemporaryFile("w+") as err:
        process = start(echo, *flags, stdin=source, stderr=err)
        assert process.wait(60) == 2
        err.seek(0)
        assert f"--output={path}" in err.read()
    assert path.read_text(encoding="utf-8") == "ba.\n"


def test_nothing_gives_nothing(echo):
    assert run(echo, []) == (0, [], [])


def test_a_bad_byte_is_named_by_its_line(echo):
    source = b"ba.\n" * 200 + b"ka \xff.\nba.\n"
    code, lines, (line,) = run(echo, source)
    assert code == 2
    # What was asked for before is there, in whole lines.
    assert lines == ["ba."] * 128
    assert line.startswith("Error: Line 201 of the input is not UTF-8")


def test_a_reader_may_leave(echo, tmp_path):
    source = tmp_path / "in"
    # More than a pipe takes: it cannot have ended before the reader leaves.
    source.write_text("ba ka.\n" * 100_000, encoding="utf-8")
    reading, writing = [os.fdopen(*end) for end in zip(os.pipe(), ("r", "w"))]
    with tempfile.TemporaryFile("w+") as err, reading:
        with writing:
            flag = f"--input={source}"
            process = start(echo, flag, stdout=writing, stderr=err)
        assert reading.readline() == "ba ka.\n"
        reading.close()
        assert process.wait(60) == 141
        err.seek(0)
        assert processes.Result(141, "", err.read()).err == ""


def test_killed_it_leaves_whole_lines(
    exported, truncating_translator, tmp_path
):
    source, target = tmp_path / "in", tmp_path / "out"
    texts = TEXTS[:30] * 700
    source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    process = start(exported, f"--input={source}", f"--output={target}")
    deadline = time.monotonic() + 60
    while not (target.exists() and target.stat().st_size > 2_000):
        assert process.poll() is None and time.monotonic() < deadline
    process.kill()
    assert process.wait(60) == -signal.SIGKILL
    content = target.read_text(encoding="utf-8")
    assert content.endswith("\n")
    lines = content.split("\n")[:-1]
    assert 128 <= len(lines) < len(texts)
    translations = [t.text for t in truncating_translator.translate(TEXTS[:30])]
    assert lines == (translations * 700)[: len(lines)]


def test_an_export_needs_no_keras(echo):
    code = (
        "import json, sys\n"
        "from export.serving.exported_translator import load_translator\n"
        "from export.lines import streams\n"
        f"found = load_translator([{str(echo)!r}], 64, {{}})\n"
        "print(json.dumps([found.n_best(['ba.'], 1)[0][0].text]))\n"
        "assert 'keras' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tiny.ROOT, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["ba."]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["directory", "export"])
def test_memory_does_not_grow_with_the_file(
    kind, model_path, exported, tmp_path
):
    model = {"directory": model_path, "export": exported}[kind]
    peaks = []
    for count in (8_000, 28_000):
        source, target = tmp_path / "in", tmp_path / "out"
        with source.open("w", encoding="utf-8") as file:
            file.writelines(f"{TEXTS[n % 30]}\n" for n in range(count))
        flags = [f"--model={model}", f"--input={source}", f"--output={target}"]
        process = subprocess.Popen(
            [sys.executable, "-m", "export.translate", *flags],
            cwd=tiny.ROOT,
            stderr=subprocess.PIPE,
            env=commands.environment(),
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.communicate()[1] is not None
        assert process.returncode == 0
        assert target.read_bytes().count(b"\n") == count
        peaks.append(usage.ru_maxrss / 1000)
    assert peaks[1] < 1.1 * peaks[0] + 30
