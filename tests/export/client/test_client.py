"""The command as users run it, against the two interfaces of a server."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tests import made_up_text
from tests.export import tiny
from tests.export.client import fake_serving

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


def run(*flags, given=None, environment=()):
    """Returns (exit code, lines of stdout, the last line of stderr)."""
    if given is None:
        given = "".join(f"{text}\n" for text in TEXTS).encode()
    done = subprocess.run(
        [sys.executable, "-m", "export.client", *flags],
        cwd=tiny.ROOT,
        input=given,
        capture_output=True,
        env=os.environ | {"no_proxy": "*"} | dict(environment),
    )
    assert b"Traceback" not in done.stderr
    lines = done.stdout.decode().split("\n")
    assert lines.pop() == ""
    return done.returncode, lines, done.stderr.decode().strip().split("\n")[-1]


def test_a_line_gives_a_line_in_order(rest, translator, backend, tmp_path):
    """Modules that cannot be imported show that REST needs no TensorFlow."""
    for name in ("tensorflow", "keras"):
        (tmp_path / f"{name}.py").write_text("raise AssertionError\n")
    backend.sizes.clear()
    (tmp_path / "in").write_text("".join(f"{text}\n" for text in TEXTS))
    code, lines, err = run(
        *(rest, f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}"),
        *("--scores", "--batch_size=4", "--version=1"),
        environment={"PYTHONPATH": str(tmp_path)},
    )
    assert (code, lines) == (0, []), err
    lines = (tmp_path / "out").read_text().splitlines()
    scores, texts = zip(*[line.split("\t") for line in lines])
    expected = translator.translate(TEXTS)
    assert list(texts) == [each.text for each in expected]
    np.testing.assert_allclose(
        [float(each) for each in scores],
        [each.score for each in expected],
        atol=1e-4,
    )
    assert backend.sizes == [4, 4, 3]


def test_n_best(grpc_target, translator):
    code, lines, err = run(grpc_target, "--n_best=3", "--label=stable")
    assert code == 0, err
    expected = [
        [str(number), each.text]
        for number, three in enumerate(translator.n_best(TEXTS, 3))
        for each in three
    ]
    assert [line.split(" ||| ")[:2] for line in lines] == expected


@pytest.mark.parametrize("address", ["rest", "grpc_target"])
def test_alignments(request, address, translator):
    code, lines, err = run(request.getfixturevalue(address), "--alignments")
    assert code == 0, err
    texts, links = zip(*[line.split("\t") for line in lines])
    expected = translator.align(TEXTS)
    assert list(texts) == [each.text for each in expected]
    assert list(links) == [
        " ".join(f"{a}-{b}" for a, b in each.alignment) for each in expected
    ]
    assert any(links)


@pytest.mark.parametrize(
    "flags, name",
    [
        ([], "--url"),
        (["--url=http://h:1", "--grpc=h:1"], "--url"),
        (["--url=localhost:8501"], "--url"),
        (["--url=http://host:port"], "--url"),
        (["--url=http://a..b:8501"], "--url"),
        (["--url=http://localhost:1/m\u00f6del"], "--url"),
        (["--grpc=http://host:8500"], "--grpc"),
        (["--grpc=h:1", "--version=1", "--label=a"], "--label"),
        (["--grpc=h:1", "--timeout_seconds=0"], "--timeout_seconds"),
        (["--grpc=h:1", "--alignments", "--n_best=2"], "--alignments"),
        (["rest", "--model_name=other"], "--model_name"),
        (["rest", "--version=7"], "version 7 of translator"),
        (["grpc_target", "--label=new"], "version new of translator"),
        (["rest", "--n_best=9"], "the 4 translations"),
        (["rest"], "Line 2"),
    ],
)
def test_refusals_are_one_line(request, flags, name):
    if flags and not flags[0].startswith("--"):
        flags = [request.getfixturevalue(flags[0]), *flags[1:]]
    given = b"ba.\nb\xff.\n" if name == "Line 2" else b"ba.\n"
    code, lines, err = run(*flags, given=given)
    assert (code, lines) == (2, [])
    assert err.startswith("Error: ") and name in err
