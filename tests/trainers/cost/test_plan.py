"""`python -m trainers.plan` as a user runs it."""

import re

import pytest

from tests.trainers import commands
from tests.trainers.data.memory_corpus import SIZE, prepare
from trainers.cost.flops import COMPONENTS


@pytest.fixture(name="plan", scope="module")
def fixture_plan(tmp_path_factory):
    worker = commands.Worker("trainers.plan")
    folder = tmp_path_factory.mktemp("plan")
    yield lambda *arguments: worker.run(*arguments, folder=folder)
    worker.close()


def cells(text, first):
    """The cells of the first line of a table that begins so."""
    line = re.search(rf"^\| {re.escape(first)} .*$", text, re.MULTILINE)[0]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_plan(plan):
    done = plan("--preset=big", "--pairs=36e6", "--gpus=8xH100")
    assert done.code == 0, done.err
    assert done.out.startswith("# big on 8 x H100, mixed_bfloat16")
    assert "214,245,376 parameters" in done.out
    parts = [cells(done.out, part) for part in COMPONENTS]
    forward, backward = (
        sum(float(row[column].replace(",", "")) for row in parts)
        for column in (1, 2)
    )
    assert backward == pytest.approx(2 * forward, abs=0.5)
    # Six FLOPs a weight, but for what is looked up and no matrix.
    assert forward + backward == pytest.approx(6 * 214, rel=0.05)
    assert "36,000,000 pairs" in done.out


def test_own_figures_and_a_price(plan):
    done = plan(
        *("--preset=tiny", "--set=train_steps=4000", "--gpus=cpu"),
        *("--flops=4e11", "--memory=16", "--watts=100"),
        "--gpu_hour_price=0.5",
    )
    assert done.code == 0, done.err
    printed = re.search(
        r"FLOPs: ([\d.]+) hours.*?, ([\d.]+) kWh, a price of ([\d.]+\d)",
        done.out,
    )
    hours, energy, price = map(float, printed.groups())
    assert energy == pytest.approx(hours / 10, rel=0.02)
    assert price == pytest.approx(hours / 2, rel=0.02)
    assert "Of 16.00 GiB" in done.out


def test_prepared_data(plan, tmp_path):
    prepared = prepare(tmp_path / "data")
    train = prepared.manifest.splits["train"]
    where = f"--prepared_dir={prepared.folder}"
    done = plan(where, "--preset=tiny", f"--set=vocabulary_size={SIZE}")
    assert done.code == 0, done.err
    mean = train.source.num_tokens / train.num_pairs
    assert f"{train.num_pairs} pairs of {mean:.4g} and " in done.out
    commands.assert_one_clear_line(plan(where), f"vocabulary_size={SIZE}")


def test_refusals(plan):
    for arguments, named in (
        (["--gpus=8xGTX"], "GTX"),
        (["--preset=huge"], "huge"),
        (["--gpus=cpu"], "--flops"),
        (["--gpus=64xH100"], "--link"),
        (["--gpus=2xcpu", "--flops=1e11"], "--link"),
        (["--gpus=P100", "--precision=mixed_bfloat16"], "P100"),
        (["--prepared_dir=none"], "none"),
        (["--prepared_dir=none", "--pairs=3"], "--pairs"),
        (["--prepared_dir=none", "--source_length=3"], "--source_length"),
    ):
        commands.assert_one_clear_line(plan(*arguments), named)
    for flag in ("pairs=-1", "pairs=nan", "flops=inf"):
        done = plan(f"--{flag}")
        assert done.code == 1
        assert flag.partition("=")[0] in done.err
