"""The command against the two interfaces of a server."""

import pytest

from export.terms.terms import Terms
from tests import made_up_text
from tests.export import commands, tiny
from tests.export.client import fake_serving
from tests.export.lines.test_translate import (
    check_aligned,
    check_n_best,
    check_scores,
)

TEXTS = [*made_up_text.sentences()[:9], "", "  ", "b\u00e0 ka.", "\U0001f600"]


@pytest.fixture(scope="module")
def backend(server, exported):
    return fake_serving.Backend(server, exported)


@pytest.fixture(scope="module")
def addresses(backend):
    with (
        fake_serving.rest(backend) as url,
        fake_serving.grpc_interface(backend) as target,
    ):
        yield {"rest": f"--url={url}", "grpc": f"--grpc={target}"}


def run(*flags, texts=TEXTS):
    return commands.run("export.client", None, texts, *flags)


def test_rest_answers_in_order_without_tensorflow(
    addresses, translator, backend, tmp_path
):
    for name in ("tensorflow", "keras"):
        (tmp_path / f"{name}.py").write_text("raise AssertionError\n")
    backend.sizes.clear()
    code, lines, err = commands.run_alone(
        *("export.client", None, TEXTS, addresses["rest"], "--alignments"),
        *(f"--output={tmp_path / 'out'}", "--input=-"),
        *("--scores", "--batch_size=4", "--version=1"),
        variables={"PYTHONPATH": f"{tmp_path}:{tiny.ROOT}", "no_proxy": "*"},
    )
    assert (code, lines) == (0, []), err
    lines = (tmp_path / "out").read_text().splitlines()
    _, links = check_aligned(lines, translator.align(TEXTS))
    assert any(links)
    assert backend.sizes == [4, 4, 3]


def test_n_best_lists_over_grpc(addresses, translator):
    code, lines, err = run(addresses["grpc"], "--n_best=3", "--label=stable")
    assert code == 0, err
    check_n_best(lines, translator.n_best(TEXTS, 3))


@pytest.mark.parametrize("interface", ["rest", "grpc"])
def test_terms(addresses, translator, tmp_path, interface):
    path = tmp_path / "terms.tsv"
    path.write_text("ba\tmu\nka\tdo ri|do riba\n")
    flag = f"--terms={path}"
    code, lines, err = run(addresses[interface], flag, "--scores", texts=TEXTS)
    assert code == 0, err
    expected = translator.translate(TEXTS, terms=Terms.from_file(path))
    scores, texts = zip(*[line.split("\t") for line in lines])
    check_scores(scores, expected)
    assert list(texts) == [each.text for each in expected]
    assert "do ri" in texts[11]
    for flags, words in ((["--n_best=2"], "--n_best"), ([], "'bà ka.'")):
        path.write_text("ka\tŵ\n")
        code, _, err = run(addresses[interface], flag, *flags, texts=TEXTS)
        assert code == 2 and words in err[-1]


def test_refusals_are_one_line_and_2(addresses):
    rest, grpc = addresses["rest"], addresses["grpc"]
    for flags, named in (
        (["--url=localhost:8501"], "--url"),
        (["--url=http://host:port"], "--url"),
        (["--url=http://a..b:8501"], "--url"),
        (["--url=http://localhost:1/m\u00f6del"], "--url"),
        (["--grpc=http://host:8500"], "--grpc"),
        (["--grpc=h:1", "--alignments", "--n_best=2"], "--alignments"),
        ([rest, "--model_name=other"], "--model_name"),
        ([rest, "--version=7"], "version 7 of translator"),
        ([grpc, "--label=new"], "version new of translator"),
        ([rest, "--n_best=9"], "beam size"),
    ):
        code, lines, err = run(*flags, texts=["ba."])
        assert (code, lines) == (2, []), flags
        assert err[-1].startswith("Error: ") and named in err[-1]
    for flags in (
        [],
        ["--url=http://h:1", "--grpc=h:1"],
        ["--grpc=h:1", "--version=1", "--label=a"],
        ["--grpc=h:1", "--timeout_seconds=0"],
        ["--grpc=h:1", "--timeout_seconds=nan"],
    ):
        assert run(*flags, texts=["ba."])[0] == 1
