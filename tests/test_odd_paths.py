"""The commands one after another, in a folder that few programs expect."""

import re
import subprocess

import pytest

from tests import processes
from tests.trainers import cipher, commands, event_files

NAME = "it's [1] ünï x*"
# Each writes the words that it was given, in the place of running.
_PRINT = "; ".join(
    f"{name}() {{ printf '%s\\0' \"$@\"; }}"
    for name in ("python", "tensorboard", "docker")
)


def _words(line, folder):
    """Returns the words that bash makes of a printed command."""
    done = subprocess.run(
        ["bash", "-c", f"{_PRINT}; {line}"],
        cwd=folder,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().split("\0")[:-1]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs the words of `python -m …` there; returns what it printed."""
    folder = tmp_path_factory.mktemp("odd") / NAME
    folder.mkdir()
    cipher.write(folder)
    (folder / "text").write_text("ba do\nki\n", encoding="utf-8")

    def finished(option, module, *arguments):
        assert option == "-m"
        done = processes.run(
            {"module": module},
            arguments,
            folder,
            source=(folder / "text").read_bytes(),
            # An export's session needs a process without TensorFlow, and
            # workers one that multiprocessing did not start.
            imported=module != "trainers.synthesize"
            and not {str(folder / name) for name in ("exports/m", "second")}
            & {argument.rpartition("=")[2] for argument in arguments},
        )
        assert done.code == 0, done.err
        return done.out

    finished.folder = folder
    return finished


def _next(out, folder):
    _, found = out.split("\nNext:\n")
    assert re.fullmatch("(  .*\n)+", found)
    return [_words(line, folder) for line in found.splitlines()]


@pytest.fixture(scope="module")
def trained(run):
    """The folder of a model, and what the training printed."""
    folder = run.folder
    out = run(
        *("-m", "trainers.prepare", f"--dataset=text:{folder / 'toy'}"),
        *("--source_language=en", "--target_language=xx", "--preset=tiny"),
        *("--vocabulary_size=64", f"--output_dir={folder / 'data'}"),
    )
    (train,) = _next(out, folder)
    model = folder / "m"
    return model, run(
        *(*train, *commands.MINUTE_MODEL, f"--model_dir={model}"),
        *("--batch_tokens=128", "--train_steps=6", "--checkpoint_steps=3"),
        *("--set=max_extra_tokens=4", "--dev_steps=3", "--attention_steps=0"),
    )


def _translate(run, model):
    output = model.with_name(f"{model.name}.txt")
    run("-m", "export.translate", f"--model={model}", f"--output={output}")
    return output.read_text(encoding="utf-8")


@pytest.mark.slow
def test_what_is_printed_next_has_the_paths_as_single_words(run, trained):
    model, out = trained
    (_, logs), export = _next(out, run.folder)
    assert event_files.scalars(f"{logs}/dev")["loss"]
    assert f"--model_dir={model}" in export


@pytest.mark.slow
def test_each_command_runs_what_the_one_before_printed(run, trained):
    folder = run.folder
    model, out = trained
    _, export = _next(out, folder)
    out = run(*export, "--max_source_tokens=16")
    served = _words(out.partition("docs/serving.md):\n")[2], folder)
    assert f"{folder.resolve() / 'exports' / 'm'}:/models/translator" in served
    exported = folder / "exports" / "m"
    assert _translate(run, model) == _translate(run, exported)
    run(
        *("-m", "export.attention", f"--model={model}", "--text=ba do"),
        *(f"--output={folder / 'a.html'}", f"--svg={folder / 'a.svg'}"),
    )
    run("-m", "trainers.evaluate", f"--model_dir={model}", "--split=dev")
    run("-m", "trainers.results", f"--scores={model}")


@pytest.mark.slow
def test_more_commands_run_what_was_printed(run, trained):
    folder = run.folder
    model, out = trained
    _, export = _next(out, folder)
    run(*export, "--max_source_tokens=16", "--export_dir=second", "--nocheck")
    exported = folder / "second"
    run("-m", "export.check", str(exported), f"--model_dir={model}")
    run(
        *("-m", "trainers.evaluate", f"--model_dir={exported}"),
        *(f"--dataset=text:{folder / 'toy'}", "--source_language=en"),
        *("--target_language=xx", f"--output={folder / 'out'}"),
    )
    out = run(
        *("-m", "trainers.synthesize", f"--model={model}"),
        *(f"--text={folder / 'text'}", f"--output_dir={folder / 'made'}"),
        *("--source_language=en", "--target_language=xx", "--workers=1"),
    )
    ((_, _, dataset, *_),) = _next(out, folder)
    assert dataset == f"--dataset=text:{folder / 'made'}/"
    preset = folder / "preset"
    run("-m", "export.keras_hub", f"--model_dir={model}", f"--preset={preset}")
    out = run(
        *("-m", "export.keras_hub", f"--from_preset={preset}"),
        f"--model_dir={folder / 'back'}",
    )
    ((*translate, _),) = _next(out, folder)
    assert run(*translate, f"--model={folder / 'back'}") == _translate(
        run, model
    )
