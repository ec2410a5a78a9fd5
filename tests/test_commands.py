"""Every command, given what is not what its flags ask for."""

import importlib.metadata
import pathlib
import subprocess
import sys
import tomllib

import pytest

import keras_transformer as kt
from export.common import packages
from tests import processes
from tests.export import tiny
from tests.trainers import cipher
from trainers import console

# Of each command: what it needs, and its flags of files and folders.
_LINES = {"input": "file", "output": "new file"}
_TEXT = "--dataset=text:toy --source_language=en --target_language=xx"
COMMANDS = {
    "export.attention": (
        "--model=m --text=ba",
        {"model": "folder", "output": "new file", "svg": "new file"},
    ),
    "export.bergamot": (
        "--model_dir=m --output_dir=new --sentences=text",
        {
            "model_dir": "folder",
            "output_dir": "new folder",
            "sentences": "file",
            "shortlist": "file",
        },
    ),
    "export.check": ("e", {"model_dir": "folder"}),
    "export.client": (
        "--url=http://localhost:1 --retries=0",
        {"terms": "file", **_LINES},
    ),
    "export.ctranslate2": (
        "--model_dir=m --output_dir=new",
        {
            "model_dir": "folder",
            "output_dir": "new folder",
            "compare": "file",
            "target_pieces": "file",
        },
    ),
    "export.import_marian": (
        "--hf=m --model_dir=new",
        {"hf": "folder", "model_dir": "new folder", "check": "file"},
    ),
    "export.import_nllb": (
        "--hf=m --model_dir=new",
        {"hf": "folder", "model_dir": "new folder"},
    ),
    "export.keras_hub": (
        "--model_dir=m --preset=new",
        {"model_dir": "folder", "preset": "new folder"},
    ),
    "export.litert": (
        "--model_dir=m --output_dir=new --nocheck",
        {"model_dir": "folder", "output_dir": "new folder"},
    ),
    "export.marian": (
        "--model_dir=m --output_dir=new",
        {"model_dir": "folder", "output_dir": "new folder"},
    ),
    "export.model_card": (
        "--model_dir=m",
        {"model_dir": "folder", "export": "folder", "output": "new file"},
    ),
    "export.onnx": (
        "--model_dir=m --output_dir=new --nocheck",
        {
            "model_dir": "folder",
            "output_dir": "new folder",
            "target_pieces": "file",
        },
    ),
    "export.page": (
        "--model_dir=m --output_dir=new --nocheck",
        {"model_dir": "folder", "output_dir": "new folder"},
    ),
    "export.parse": ("--model=m", {"model": "folder", **_LINES}),
    "export.sample": ("--model=m", {"model": "folder", **_LINES}),
    "export.saved_model": (
        "--model_dir=m --export_dir=new --nocheck",
        {
            "model_dir": "folder",
            "export_dir": "new folder",
            "target_pieces": "file",
        },
    ),
    "export.score": (
        "--model=m --translations=text",
        {"model": "folder", "translations": "file", **_LINES},
    ),
    "export.serve": ("--model=m --port=0", {"model": "folder"}),
    "export.translate": (
        "--model=m",
        {
            "model": "folder",
            "prefixes": "file",
            "target_pieces": "file",
            "terms": "file",
            **_LINES,
        },
    ),
    "trainers.distill": (
        f"--teacher=m --output_dir=new {_TEXT}",
        {"teacher": "folder", "output_dir": "new folder"},
    ),
    "trainers.evaluate": (
        f"--model_dir=m {_TEXT}",
        {
            "model_dir": "folder",
            "references": "file",
            "output": "new file",
            "dataset": "prefix",
        },
    ),
    "trainers.parsing": (
        "--dataset=trees:toy --model_dir=new",
        {
            "model_dir": "new folder",
            "init_from": "folder",
            "prepared_dir": "folder",
            "dataset": "prefix",
        },
    ),
    "trainers.plan": ("--pairs=9", {"prepared_dir": "folder"}),
    "trainers.prepare": (
        f"{_TEXT} --output_dir=new --vocabulary_size=64",
        {
            "output_dir": "new folder",
            "vocabulary": "file",
            "symbols": "file",
            "pair_scores": "file",
            "dataset": "prefix",
        },
    ),
    "trainers.results": (
        "--scores=m",
        {"scores": "file", "output": "new file"},
    ),
    "trainers.score_pairs": (
        f"--model_dir=m --reverse_model_dir=m --output=new {_TEXT}",
        {
            "model_dir": "folder",
            "reverse_model_dir": "folder",
            "output": "new file",
        },
    ),
    "trainers.shortlist": (
        "--model=m --input=text --translations=text --output=new",
        {
            "model": "folder",
            "translations": "file",
            **_LINES,
        },
    ),
    "trainers.synthesize": (
        "--model=m --text=text --source_language=en --target_language=xx "
        "--output_dir=new --workers=1",
        {"model": "folder", "text": "file", "output_dir": "new folder"},
    ),
    "trainers.table3": (
        f"{_TEXT} --output_dir=new --rows=base --train_steps=1",
        {"output_dir": "new folder", "dataset": "prefix"},
    ),
    "trainers.wmt": (
        f"{_TEXT} --model_dir=new --train_steps=1",
        {
            "model_dir": "new folder",
            "init_from": "folder",
            "init_layers_from": "folder",
            "prepared_dir": "folder",
            "dataset": "prefix",
        },
    ),
}

# Of each kind, what is there and is another one.
WRONG = {
    "file": "m",
    "folder": "text",
    "new file": "m",
    "new folder": "text/x",
    "prefix": "text:text/x",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    tiny.write(folder / "m", seed=5)
    cipher.write(folder)
    (folder / "text").write_text("ba\nka\n")
    return folder


def _refusal(module, folder, *flags):
    """Returns what the command says, which ends with nothing written."""
    before = sorted(folder.rglob("*"))
    done = processes.run({"module": module}, flags, folder, source=b"ba\n")
    assert done.code in (1, 2)
    assert done.out.count("\n") <= 3
    assert done.err.startswith(("Error: ", "FATAL Flags parsing error"))
    assert "Traceback" not in done.err
    assert sorted(folder.rglob("*")) == before
    return done.err


def test_the_table_has_every_command():
    names = (
        ".".join(path.relative_to(processes.ROOT).with_suffix("").parts)
        for package in ("export", "trainers")
        for path in pathlib.Path(processes.ROOT, package).rglob("*.py")
        if "\n    command.run(main" in path.read_text(encoding="utf-8")
    )
    found = {name.removesuffix(".__main__") for name in names}
    assert found == set(COMMANDS)


@pytest.mark.parametrize("module", COMMANDS)
def test_help_is_shown_and_other_flags_are_named(folder, module):
    done = processes.run({"module": module}, ["--help"], folder)
    assert f"{module}:" in done.out or "flags:" in done.out
    for name in COMMANDS[module][1]:
        assert f"--{name}:" in done.out.replace("--[no]", "--")
    assert "no_such" in _refusal(module, folder, "--no_such=1")


@pytest.mark.parametrize("module", [*COMMANDS][::4])
def test_another_backend_is_refused_by_name(folder, module):
    environment = processes.user_environment() | {"KERAS_BACKEND": "torch"}
    done = processes.run(
        {"module": module}, COMMANDS[module][0].split(), folder, environment
    )
    assert "Traceback" not in done.err
    if module not in ("export.client", "trainers.plan", "trainers.results"):
        assert done.code == 2
        assert "KERAS_BACKEND" in done.err


def test_a_backend_that_is_not_installed_is_refused_by_name():
    """Where the command imports Keras itself."""
    done = subprocess.run(
        [sys.executable, "-m", "trainers.wmt"],
        env=processes.user_environment() | {"KERAS_BACKEND": "none"},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "KERAS_BACKEND" in done.stderr


@pytest.mark.parametrize(
    "module, flag",
    [
        pytest.param(module, flag, marks=[pytest.mark.slow] * bool(number))
        for module, (_, flags) in COMMANDS.items()
        for number, flag in enumerate(flags)
    ],
)
def test_what_is_another_thing_is_refused(folder, module, flag):
    needed, flags = COMMANDS[module]
    given = [each for each in needed.split() if f"--{flag}=" not in each]
    for value in ("", WRONG[flags[flag]]):
        if module != "export.check" or value:
            said = _refusal(module, folder, *given, f"--{flag}={value}")
            assert value or f"--{flag} has an empty value" in said


def test_the_console_command_has_every_command():
    commands = console.find_commands()
    assert {module for module, _ in commands.values()} == set(COMMANDS)
    assert commands["train"][0] == "trainers.wmt"
    assert commands["export"][0] == "export.saved_model"


def test_the_console_command(folder):
    def run(*arguments):
        return processes.run({"module": "trainers.console"}, arguments, folder)

    assert run("--version").out == f"keras-translation {kt.__version__}\n"
    assert "score-pairs" in run().out
    wrong = run("no_such")
    assert wrong.code == 2
    assert "no_such" in wrong.err
    done = run("score", "--model=m", "--input=text", "--translations=text")
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == 2


PROGRAM = """
import sys
# As if it were not installed.
sys.modules["{package}"] = None
import runpy
sys.argv = ["{module}", {flags}]
sys.orig_argv = [sys.executable, "-m", "{module}", {flags}]
argv, sys.argv = sys.argv, ["-m"]
import export
sys.argv = argv
runpy.run_module("{module}", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    "package, extra, module, flags",
    [
        ("tensorflow", "tensorflow", "export.saved_model", ()),
        ("sacrebleu", "train", "trainers.wmt", ()),
        ("starlette", "serve", "export.serve", ("--model=m",)),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    folder, package, extra, module, flags
):
    program = PROGRAM.format(
        package=package, module=module, flags=", ".join(map(repr, flags))
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=processes.user_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert package in line and f"[{extra}]" in line


def test_versions_are_those_of_the_distribution(monkeypatch):
    project = tomllib.loads((processes.ROOT / "pyproject.toml").read_text())
    project = project["project"]
    given = project["dependencies"] + sum(
        project["optional-dependencies"].values(), []
    )
    versions = packages.VERSIONS | packages.KERAS_HUB_VERSIONS
    for name, (lowest, limit) in versions.items():
        bounds = f">={lowest}" + (f",<{limit}" if limit else "")
        name = name.replace("keras-hub", "keras-nlp")
        assert any(each.startswith(f"{name}{bounds}") for each in given), name
    assert packages.find_unsupported_version() is None
    for version in "3.9.2", "3.17.0":
        monkeypatch.setattr(
            importlib.metadata,
            "version",
            lambda name, version=version: version,
        )
        message = packages.find_unsupported_version()
        assert f"keras {version}" in message and ">=3.10,<3.17" in message
