"""The command as users run it, against the two interfaces of a server."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tests import made_up_text
from tests.export import tiny
from tests.export.remote import fake_serving

pytest.importorskip("tensorflow_serving")

TEXTS = [*made_up_text.sentences()[:9], "", "  ", "b\u00e0 ka.", "\U0001f600"]


@pytest.fixture(scope="module")
def backend(server, exported):
    return fake_serving.Backend(server, exported)


@pytest.fixture(scope="module")
def rest(backend):
    with fake_serving.rest(backend) as url:
        yield f"--url={url}"


@pytest.fixture(scope="module")
def grpc_target(backend):
    with fake_serving.grpc_interface(backend) as target:
        yield f"--grpc={target}"


@pytest.fixture(params=["rest", "grpc_target"])
def address(request):
    return request.getfixturevalue(request.param)


def run(*flags, texts=TEXTS, given=None):
    """Returns (exit code, lines of stdout, stderr)."""
    if given is None:
        given = "".join(f"{text}\n" for text in texts).encode()
    done = subprocess.run(
        [sys.executable, "-m", "export.client", *flags],
        cwd=tiny.ROOT,
        input=given,
        capture_output=True,
        env=os.environ | {"no_proxy": "*"},
    )
    lines = done.stdout.decode().split("\n")
    assert lines.pop() == ""
    return done.returncode, lines, done.stderr.decode()


def test_a_line_gives_a_line_in_order(address, translator, backend):
    backend.sizes.clear()
    code, lines, err = run(address, "--scores", "--batch_size=4")
    assert code == 0, err
    scores, texts = zip(*[line.split("\t") for line in lines])
    expected = translator.translate(TEXTS)
    assert list(texts) == [each.text for each in expected]
    np.testing.assert_allclose(
        [float(score) for score in scores],
        [each.score for each in expected],
        atol=1e-4,
    )
    assert backend.sizes == [4, 4, 3]


def test_n_best(address, translator):
    code, lines, err = run(address, "--n_best=3", "--model_name=translator")
    assert code == 0, err
    expected = [
        (number, each)
        for number, three in enumerate(translator.n_best(TEXTS, 3))
        for each in three
    ]
    numbers, texts, scores = zip(*[line.split(" ||| ") for line in lines])
    assert list(numbers) == [str(number) for number, _ in expected]
    assert list(texts) == [each.text for _, each in expected]
    np.testing.assert_allclose(
        [float(score) for score in scores],
        [each.score for _, each in expected],
        atol=1e-4,
    )


def test_alignments(address, translator):
    code, lines, err = run(address, "--alignments", "--label=stable")
    assert code == 0, err
    texts, links = zip(*[line.split("\t") for line in lines])
    expected = translator.align(TEXTS)
    assert list(texts) == [each.text for each in expected]
    assert list(links) == [
        " ".join(f"{a}-{b}" for a, b in each.alignment) for each in expected
    ]
    assert any(links)


def test_files_and_a_version(rest, translator, tmp_path):
    (tmp_path / "in").write_text("".join(f"{text}\n" for text in TEXTS[:3]))
    code, lines, err = run(
        rest,
        "--version=1",
        f"--input={tmp_path / 'in'}",
        f"--output={tmp_path / 'out'}",
    )
    assert (code, lines) == (0, []), err
    expected = [each.text for each in translator.translate(TEXTS[:3])]
    assert (tmp_path / "out").read_text().splitlines() == expected


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--model_name=other"], ["does not serve other", "--model_name"]),
        (["--version=7"], ["does not serve version 7 of translator"]),
        (["--label=new"], ["does not serve the version new of translator"]),
        (["--n_best=9"], ["--n_best=9", "the 4 translations"]),
    ],
)
def test_what_is_wrong_is_one_line_and_2(address, flags, words):
    code, lines, err = run(address, *flags, texts=["ba."])
    assert (code, lines) == (2, [])
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    for each in words:
        assert each in err


@pytest.mark.parametrize(
    "flags, words",
    [
        ([], "Give either --url"),
        (["--url=http://h:1", "--grpc=h:1"], "Give either --url"),
        (["--url=localhost:8501"], "must be like http://host:8501"),
        (["--url=http://host:port"], "must be like http://host:8501"),
        (["--grpc=http://host:8500"], "must be like host:8500"),
        (["--grpc=h:1", "--version=1", "--label=a"], "either --version or"),
        (["--grpc=h:1", "--timeout_seconds=0"], "=0 must be above 0"),
        (["--alignments", "--n_best=2"], "--alignments are of the best"),
    ],
)
def test_flags_that_are_wrong_are_one_line_and_2(flags, words):
    code, _, err = run(*flags, texts=[])
    assert code == 2
    assert words in err
    assert err.count("\n") == 1


def test_a_bad_byte_is_named_by_its_line(rest):
    code, _, err = run(rest, given=b"ba.\nb\xff.\n")
    assert code == 2
    assert "Line 2 of the input is not UTF-8" in err


def test_it_needs_no_tensorflow(rest, grpc_target, tmp_path):
    """Two modules of these names that cannot be imported stand before it."""
    for name in ("tensorflow", "keras"):
        (tmp_path / f"{name}.py").write_text("raise AssertionError\n")
    for flag in (rest, grpc_target):
        done = subprocess.run(
            [sys.executable, "-m", "export.client", flag],
            cwd=tiny.ROOT,
            input=b"ba.\n",
            capture_output=True,
            env=os.environ | {"PYTHONPATH": str(tmp_path), "no_proxy": "*"},
        )
        assert done.returncode == 0, done.stderr
