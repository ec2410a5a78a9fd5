"""The command as users run it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests import made_up_text
from tests.export import commands, tiny

LONG = "ba bi " * 500
TEXTS = [*made_up_text.sentences()[:30], "", LONG, "  ", "b\u00e0 ka."]


@pytest.fixture(scope="module")
def expected(translator):
    """Answers of our own Translator, cutting sources as the export does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translator, "max_source_tokens", tiny.MAX_SOURCE_TOKENS)
        yield translator


def start(model, *flags, **streams):
    return commands.start("export.translate", model, *flags, **streams)


def run(model, texts, *flags):
    return commands.run("export.translate", model, texts, *flags)


def check_scores(lines, expected):
    np.testing.assert_allclose(
        [float(line) for line in lines], [t.score for t in expected], atol=1e-4
    )


def test_an_export_gives_a_line_for_a_line_in_order(exported, expected):
    code, lines, err = run(exported, TEXTS)
    assert code == 0
    assert lines == [t.text for t in expected.translate(TEXTS)]
    assert lines[30] == lines[32] == ""
    assert len(err) == 1
    assert "1 of the lines (32)" in err[0]


def test_the_folder_of_versions_stands_for_the_newest(exported, tmp_path):
    for name in ("2", "9", "models.config"):
        (tmp_path / name).mkdir()
    shutil.copytree(exported, tmp_path / "10")
    assert run(tmp_path, TEXTS[:3]) == run(exported, TEXTS[:3])


def test_batches_change_nothing(exported):
    _, lines, _ = run(exported, TEXTS)
    assert run(exported, TEXTS, "--batch_tokens=1")[1] == lines
    assert run(exported, TEXTS, "--batch_tokens=50")[1] == lines


def test_scores_and_alignments_of_an_export(exported, expected):
    _, lines, _ = run(exported, TEXTS, "--scores", "--alignments")
    found = expected.align(TEXTS)
    scores, texts, links = zip(*[line.split("\t") for line in lines])
    check_scores(scores, found)
    assert list(texts) == [t.text for t in found]
    assert list(links) == [
        " ".join(f"{one}-{other}" for one, other in t.alignment) for t in found
    ]
    assert links[30] == ""
    assert links[0]


def test_n_best_of_an_export(exported, expected):
    _, lines, _ = run(exported, TEXTS, "--n_best=3")
    found = [
        (number, each)
        for number, three in enumerate(expected.n_best(TEXTS, 3))
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
    # Its longest source is not the one that `expected` cuts to.
    lines = [line for line, text in zip(lines, TEXTS) if text != LONG]
    found = translator.align([text for text in TEXTS if text != LONG])
    scores, texts, links = zip(*[line.split("\t") for line in lines])
    assert list(texts) == [t.text for t in found]
    check_scores(scores, found)
    assert list(links) == [
        " ".join(f"{one}-{other}" for one, other in t.alignment) for t in found
    ]


def test_a_model_directory_takes_a_search(model_path):
    from export.translator import Translator

    flags = ["--beam_size=6", "--alpha=1", "--max_extra=9", "--min_length=2"]
    flags.append("--stop=finished")
    code, lines, err = run(model_path, TEXTS[:4], "--n_best=6", *flags)
    assert code == 0, err
    found = Translator.from_directory(
        model_path,
        beam_size=6,
        alpha=1.0,
        max_extra=9,
        min_length=2,
        stop="finished",
    ).n_best(TEXTS[:4], 6)
    assert [line.split(" ||| ")[1] for line in lines] == [
        each.text for six in found for each in six
    ]


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--beam_size=2"], "fixed when it was made: leave out --beam_size"),
        (["--alpha=1", "--max_extra=3"], "leave out --alpha, --max_extra"),
        (["--min_length=0"], "leave out --min_length"),
        (["--stop=finished"], "leave out --stop"),
        (["--n_best=5"], "--n_best=5 is more than the beam holds, 4"),
        (["--n_best=2", "--alignments"], "of the best translation alone"),
        (["--input=/nowhere/at/all"], "--input=/nowhere/at/all cannot be read"),
        (["--output=/nowhere/at/all"], "cannot be written: No such file"),
        (["--output=/"], "--output=/ cannot be written: Is a directory"),
    ],
)
def test_what_cannot_be_honoured_is_one_line_and_2(exported, flags, words):
    code, lines, err = run(exported, TEXTS[:2], *flags)
    assert (code, lines) == (2, [])
    (line,) = err
    assert line.startswith("Error: ")
    assert words in line


@pytest.mark.parametrize("model", ["none", ""])
def test_a_model_that_is_none_is_one_line_and_2(tmp_path, model):
    code, lines, err = run(tmp_path / model, TEXTS[:2])
    assert (code, lines) == (2, [])
    assert err[-1].startswith("Error: ")
    assert str(tmp_path) in err[-1]


def test_files(exported, tmp_path):
    _, lines, _ = run(exported, TEXTS)
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_text("\r\n".join(TEXTS), encoding="utf-8")
    target.write_text("old\n" * 1000, encoding="utf-8")
    code, out, _ = run(exported, [], f"--input={source}", f"--output={target}")
    assert (code, out) == (0, [])
    assert target.read_text(encoding="utf-8").split("\n") == [*lines, ""]


def test_a_file_is_not_written_over_itself(exported, tmp_path):
    path = tmp_path / "in"
    path.write_text("ba.\n", encoding="utf-8")
    code, _, err = run(exported, [], f"--input={path}", f"--output={path}")
    assert code == 2
    assert "also what is read" in err[0]
    assert path.read_text(encoding="utf-8") == "ba.\n"


def test_nothing_gives_nothing(exported):
    assert run(exported, []) == (0, [], [])


def test_a_bad_byte_is_named_by_its_line(exported):
    process = start(exported)
    out, err = process.communicate(b"ba.\n" * 200 + b"ka \xff.\nba.\n")
    assert process.returncode == 2
    # What was asked for before is there, in whole lines.
    assert out.count(b"\n") == 128
    (line,) = commands.said(err.decode())
    assert line.startswith("Error: Line 201 of the input is not UTF-8")


def test_a_reader_may_leave(exported, tmp_path):
    source = tmp_path / "in"
    source.write_text("ba ka.\n" * 3000, encoding="utf-8")
    process = start(exported, f"--input={source}", stdin=subprocess.DEVNULL)
    assert process.stdout.readline().endswith(b"\n")
    process.stdout.close()
    assert process.wait(60) == 141
    with process.stderr as err:
        assert commands.said(err.read().decode()) == []


def test_killed_it_leaves_whole_lines(exported, expected, tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    texts = TEXTS[:30] * 700
    source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    process = start(exported, f"--input={source}", f"--output={target}")
    deadline = time.monotonic() + 60
    while not (target.exists() and target.stat().st_size > 20_000):
        assert process.poll() is None and time.monotonic() < deadline
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    content = target.read_text(encoding="utf-8")
    assert content.endswith("\n")
    lines = content.split("\n")[:-1]
    assert 128 <= len(lines) < len(texts)
    translations = [t.text for t in expected.translate(TEXTS[:30])]
    assert lines == (translations * 700)[: len(lines)]


def test_an_export_needs_no_tensorflow_in_python(exported):
    code = (
        "import json, sys\n"
        "from export.opening import open_translator\n"
        "from export import line_formats, translate_lines, whole_lines\n"
        f"found = open_translator([{str(exported)!r}], 64, {{}})\n"
        "print(json.dumps([found.align(['ba.'])[0].text]))\n"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tiny.ROOT, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) == 1


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
        process = start(
            model, f"--input={source}", f"--output={target}", stdin=None
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.communicate()[1] is not None
        assert process.returncode == 0
        assert target.read_bytes().count(b"\n") == count
        peaks.append(usage.ru_maxrss / 1000)
    assert peaks[1] < 1.1 * peaks[0] + 30
