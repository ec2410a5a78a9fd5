"""The wheel and the source distribution, as users install them."""

import os
import subprocess
import sys

import pytest

from tests import processes

FILES = (
    "export/attention_views/page/template.html",
    "export/http_server/page/index.html",
    "export/page/static/index.html",
    "trainers/pictures/fonts",
)


def run(*arguments, folder, **environment):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_installed_commands_find_all_their_files(tmp_path, kind):
    source, built, target = (tmp_path / each for each in "sbt")
    subprocess.run(
        ["git", "clone", "--quiet", processes.ROOT, source], check=True
    )
    run(
        "-m", "build", "--no-isolation", f"--{kind}", "-o", built, folder=source
    )
    (archive,) = built.iterdir()
    assert archive.name.startswith("keras_translation-")
    options = ["--no-deps", "--no-build-isolation", "--quiet"]
    run(
        *("-m", "pip", "install", *options, f"--target={target}", archive),
        folder=tmp_path,
    )
    for name in FILES:
        assert (target / name).exists()
    for command in ("export.translate", "export.serve", "trainers.wmt"):
        done = subprocess.run(
            [sys.executable, "-m", command, "--help"],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(target)},
            capture_output=True,
            text=True,
        )
        # As absl ends after a help text.
        assert done.returncode in (0, 1)
        assert "--model" in done.stdout
