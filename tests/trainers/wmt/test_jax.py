"""Trainings on JAX: alone, beside TensorFlow's, on devices and processes.

Of translators, and at the end of a parser.

Each runs as a user runs it, in a process that cannot import TensorFlow.
"""

import json
import pathlib
import shutil
import socket
import subprocess
import sys

import numpy as np
import pytest

from export.model_directory import ModelDirectory
from tests import processes
from tests.trainers import cipher, commands, event_files
from trainers.training.checkpoints import Checkpoints

pytest.importorskip("jax")
pytestmark = pytest.mark.slow

# Packed rows, several in a batch. ReLU may turn on or off by rounding.
ARGUMENTS = (
    *commands.MINUTE_MODEL,
    "--set=vocabulary_size=64",
    "--set=activation=gelu",
    "--set=warmup_steps=40",
    "--set=max_extra_tokens=4",
    "--set=beam_size=2",
    "--batch_tokens=96",
    "--row_tokens=16",
    "--average_checkpoints=0",
    "--report_steps=1",
    "--dev_steps=10",
    "--checkpoint_steps=10",
    "--attention_steps=0",
)
# Adam makes a step of the rounding of a gradient near 0: so a small rate, and a
# seed without such an entry, for which 1 in 10 trainings differs by up to 2e-6.
DROPOUT = "--set=dropout=0.2", "--set=learning_rate_scale=0.2", "--seed=3"
PROGRAM = """
import runpy, sys
for name in "tensorflow", "tensorflow_text", "tensorflow_datasets":
    sys.modules[name] = None
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


def start(*arguments, folder, module="trainers.wmt", **environment):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, module, *arguments],
        cwd=folder,
        env=processes.user_environment()
        | {"KERAS_BACKEND": "jax"}
        | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    out, err = process.communicate(timeout=600)
    return processes.Result(process.returncode, out, err)


def run(*arguments, **options):
    return finish(start(*arguments, **options))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Prepared data; the folder of all trainings."""
    folder = tmp_path_factory.mktemp("jax")
    done = processes.run(
        {"module": "trainers.prepare"},
        [
            f"--dataset={cipher.write(folder)}",
            f"--source_language={cipher.SOURCE}",
            f"--target_language={cipher.TARGET}",
            "--vocabulary_size=64",
            "--output_dir=data",
        ],
        folder,
    )
    assert done.code == 0, done.err
    return folder


def train(folder, name, *arguments, steps=20, **environment):
    """Trains on JAX; returns the Result and the ModelDirectory."""
    done = run(
        *ARGUMENTS,
        "--prepared_dir=data",
        f"--model_dir={name}",
        f"--train_steps={steps}",
        *(arguments or ["--noscore"]),
        folder=folder,
        **environment,
    )
    return done, ModelDirectory(folder / name)


def weights(directory, step=20):
    path = Checkpoints(directory.checkpoints_path, 9).path(step)
    with np.load(path) as arrays:
        return {
            name: arrays[name] for name in arrays if name.startswith("weight/")
        }


def largest_difference(one, other):
    assert one.keys() == other.keys()
    return max(np.abs(one[name] - other[name]).max() for name in one)


@pytest.fixture(scope="module")
def alone(data):
    """A training with dropout, on one device."""
    done, directory = train(data, "alone", *DROPOUT, "--noscore")
    assert done.code == 0, done.err
    assert "on 1 device." in done.out
    return directory


def test_a_whole_training(data):
    done, directory = train(
        data,
        "whole",
        *("--attention_steps=10", "--dev_bleu_sentences=4", "--ema=0.9"),
        *("--set=dropout=0.1", "--set=r_drop=1", "--set=clip_norm=1"),
        "--accumulate=2",
        steps=30,
    )
    assert done.code == 0, done.err
    (score,) = directory.read_scores()
    assert 0.0 <= score["score"] <= 100.0
    log = json.loads((directory.path / "training.json").read_text())
    assert [each["backend"] for each in log["runs"]] == ["jax"]
    events = event_files.scalars(directory.logs_path / "train")
    losses = [value for _, value in events["loss"]]
    assert len(losses) == 30 and losses[-1] < losses[0]
    assert event_files.translation_steps(directory.logs_path / "attention") == [
        10,
        20,
        30,
    ]


@pytest.mark.parametrize("devices", [2, 8])
def test_devices_make_no_difference(data, alone, devices):
    done, directory = train(
        data,
        f"devices-{devices}",
        *(*DROPOUT, "--noscore", "--strategy=mirrored"),
        f"--logical_cpus={devices}",
    )
    assert done.code == 0, done.err
    assert f"on {devices} devices." in done.out
    moved = largest_difference(weights(alone, 10), weights(alone))
    assert moved > 2e-4
    assert largest_difference(weights(alone), weights(directory)) < 2e-6


def start_processes(*arguments, folder, second=()):
    """Starts two processes of one training; `second` has more flags of one."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    return [
        start(
            *ARGUMENTS,
            *("--prepared_dir=data", *DROPOUT, "--noscore"),
            *("--strategy=multiworker", *arguments),
            *(second if index else ()),
            folder=folder,
            JAX_COORDINATOR_ADDRESS=address,
            JAX_NUM_PROCESSES="2",
            JAX_PROCESS_ID=str(index),
        )
        for index in range(2)
    ]


def test_processes_make_no_difference(data, alone):
    flags = "--dev_bleu_sentences=4", "--tokenize=13a"
    flags = *flags, "--average_checkpoints=2", *DROPOUT
    arguments = "--model_dir=processes", "--train_steps=20", *flags
    results = [*map(finish, start_processes(*arguments, folder=data))]
    for done in results:
        assert done.code == 0, done.err
    # The chief alone evaluates the average.
    done, _ = train(data, "processes", "--noscore", *flags)
    (line,) = [each for each in done.out.splitlines() if "Final" in each]
    assert "average of the checkpoints" in line
    assert line in results[0].out
    directory = ModelDirectory(data / "processes")
    assert largest_difference(weights(alone), weights(directory)) < 2e-6


def test_the_chief_alone_translates_with_the_average(data):
    """No process waits for another one."""
    arguments = (
        *("--model_dir=average", "--train_steps=10", "--tokenize=13a"),
        *("--ema=0.9", "--sample_minutes=0.00001", "--attention_steps=5"),
    )
    results = [*map(finish, start_processes(*arguments, folder=data))]
    assert [done.code for done in results] == [0, 0], results[0].err
    assert results[0].out.count("    -> ") >= 3


SHUTDOWN = """
import jax
from trainers.training import jax_strategies
given = {}
jax.distributed.initialize = lambda *_, **options: given.update(options)
jax_strategies.make_strategy("multiworker")
print(given["shutdown_timeout_seconds"])
"""


def test_processes_wait_for_the_chief_which_may_score_for_hours():
    """JAX aborts all of them when the time of one is up."""
    environment = {
        "KERAS_BACKEND": "jax",
        "JAX_COORDINATOR_ADDRESS": "a:1",
        "JAX_NUM_PROCESSES": "2",
        "JAX_PROCESS_ID": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", SHUTDOWN],
        env=processes.user_environment() | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 24 * 3600


def test_a_lost_process_ends_the_others(data):
    arguments = "--model_dir=lost", "--train_steps=100000"
    chief, other = start_processes(*arguments, folder=data)
    for line in chief.stdout:
        if line.startswith("step 10/"):
            break
    other.kill()
    done = finish(chief)
    finish(other)
    assert done.code == 2
    assert "Error: Another worker stopped" in done.err
    assert "Traceback" not in done.err


def test_an_error_of_one_process_ends_the_others(data):
    results = start_processes(
        *("--model_dir=error", "--train_steps=10"),
        folder=data,
        second=["--prepared_dir=none"],
    )
    chief, other = map(finish, results)
    assert (chief.code, other.code) == (2, 2)
    assert "Error: Another worker stopped" in chief.err
    assert "Error: There are no prepared data in none" in other.err
    assert "Traceback" not in chief.err + other.err


def test_micro_batches_make_no_difference(data):
    made = []
    for count in 1, 3:
        done, directory = train(
            data,
            f"accumulate-{count}",
            *("--set=dropout=0", "--noscore", f"--accumulate={count}"),
        )
        assert done.code == 0, done.err
        made.append(weights(directory))
    assert largest_difference(*made) < 2e-6


def test_losses_are_those_of_tensorflow(data):
    """From the first, and after each training has changed its backend."""
    flags = (
        *("--set=dropout=0", "--set=learning_rate_scale=0.1"),
        "--noscore",
    )
    for steps, by_backend in (
        (200, {"tensorflow": "one", "jax": "other"}),
        (210, {"tensorflow": "other", "jax": "one"}),
    ):
        done, _ = train(data, by_backend["jax"], *flags, steps=steps)
        assert done.code == 0, done.err
        arguments = (
            *(*ARGUMENTS, *flags, "--prepared_dir=data"),
            f"--model_dir={by_backend['tensorflow']}",
            f"--train_steps={steps}",
        )
        done = processes.run({"module": "trainers.wmt"}, [*arguments], data)
        assert done.code == 0, done.err
    assert "Resuming from step 200." in done.out
    log = json.loads((data / "one" / "training.json").read_text())
    backends = [each["backend"] for each in log["runs"]]
    assert backends == ["tensorflow", "jax"]
    for kind in "train", "dev":
        one, other = (
            event_files.scalars(data / name / "logs" / kind)["loss"]
            for name in ("one", "other")
        )
        assert [step for step, _ in one] == [step for step, _ in other]
        assert len(one) >= 21
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-4)


def test_a_killed_training_resumes_to_the_bit(data, alone):
    killed = data / "killed"
    shutil.copytree(alone.path, killed)
    # What it had written at step 10.
    for path in [*(killed / "checkpoints").glob("*20.npz")]:
        path.unlink()
    (killed / "model.weights.h5").unlink()
    done, directory = train(data, "killed", *DROPOUT, "--noscore")
    assert done.code == 0, done.err
    assert "Resuming from step 10." in done.out
    for name, array in weights(alone).items():
        assert array.tobytes() == weights(directory)[name].tobytes()


def test_translations_are_those_of_tensorflow(data):
    path = ModelDirectory(data / "whole").path
    other = scale_weights(shutil.copytree(path, data / "scaled"))
    sources, targets = zip(*cipher.sentences(30, seed=7))
    lines = "".join(f"{line}\n" for line in ("", *sources))
    (data / "in").write_text(lines)
    prefixes = "".join(f"{line.split()[0]}\n" for line in targets)
    (data / "prefixes").write_text(f"\n{prefixes}")
    for flags in (
        ["--scores"],
        ["--n_best=2", "--prefixes=prefixes"],
        ["--batch_tokens=20", "--min_length=3", "--alpha=1", "--beam_size=3"],
        ["--scores", f"--model={other}", "--ensemble_mean=probabilities"],
    ):
        flags = [f"--model={path}", *flags]
        texts = []
        for backend in "tensorflow", "jax":
            output = f"--output={backend}"
            arguments = [*flags, "--input=in", output]
            if backend == "jax":
                done = run(*arguments, folder=data, module="export.translate")
            else:
                done = processes.run(
                    {"module": "export.translate"}, arguments, data
                )
            assert done.code == 0, done.err
            texts.append(pathlib.Path(data, backend).read_text())
            pathlib.Path(data, backend).unlink()
        assert_same(*texts)


def scale_weights(path):
    """Changes the model of a directory; returns the path."""
    directory = ModelDirectory(path)
    model = directory.load_model()
    model.set_weights([1.1 * each for each in model.get_weights()])
    directory.write_weights(model)
    return path


def assert_same(one, other):
    """Numbers may differ by rounding."""
    for line, expected in zip(
        other.splitlines(), one.splitlines(), strict=True
    ):
        for word, right in zip(line.split(), expected.split(), strict=True):
            if word != right:
                assert float(word) == pytest.approx(float(right), abs=1e-4)


@pytest.mark.parametrize(
    ("flags", "environment", "name"),
    [
        (["--nojit"], {}, "jit"),
        (["--strategy=multiworker"], {}, "JAX_COORDINATOR_ADDRESS"),
        (
            ["--strategy=multiworker"],
            {
                "JAX_COORDINATOR_ADDRESS": "a:1",
                "JAX_NUM_PROCESSES": "2",
                "JAX_PROCESS_ID": "2",
            },
            "JAX_PROCESS_ID",
        ),
    ],
)
def test_wrong_settings_are_one_line(data, flags, environment, name):
    done, directory = train(data, "wrong", *flags, **environment)
    commands.assert_one_clear_line(done, name)
    assert not directory.checkpoints_path.exists()


TREES = processes.ROOT / "tests" / "data" / "craft"
PARSER = (
    *commands.MINUTE_MODEL,
    "--dataset=trees:t",
    "--set=vocabulary_size=300",
    "--set=cooldown_steps=0",
    "--set=max_extra_tokens=30",
    "--set=beam_size=2",
    "--batch_tokens=1024",
    "--dev_f1_sentences=4",
    "--report_steps=1",
    "--dev_steps=10",
    "--checkpoint_steps=10",
    "--train_steps=20",
)


@pytest.fixture(scope="module")
def parser(tmp_path_factory):
    """The model directory of a parser, trained from trees."""
    folder = tmp_path_factory.mktemp("parser")
    shutil.copy(TREES / "craft.train.ptb", folder / "t.train.ptb")
    lines = (TREES / "craft.dev.ptb").read_text().splitlines(keepends=True)
    (folder / "t.dev.ptb").write_text("".join(lines[:4]))
    (folder / "t.test.ptb").write_text("".join(lines[4:8]))
    done = train_parser("m", folder)
    assert done.code == 0, done.err
    return ModelDirectory(folder / "m")


def train_parser(name, folder, begin=run):
    return begin(
        *PARSER, f"--model_dir={name}", folder=folder, module="trainers.parsing"
    )


def test_a_parser_and_its_data(parser):
    """The test split is scored; the data are those of TensorFlow."""
    (score,) = parser.read_scores()
    assert (score["split"], score["sentences"]) == ("test", 4)
    dev = event_files.scalars(parser.logs_path / "dev")
    assert [step for step, _ in dev["f1"]] == [10, 20]
    folder = parser.path.parent
    done = processes.run(
        {"module": "trainers.prepare"},
        ["--dataset=trees:t", "--vocabulary_size=300", "--output_dir=data"],
        folder,
    )
    assert done.code == 0, done.err
    files = sorted((folder / "data").iterdir())
    assert len(files) >= 8
    for path in files:
        other = parser.path / "data" / path.name
        assert path.read_bytes() == other.read_bytes(), path.name


def test_a_killed_parser_resumes_to_the_bit(parser):
    folder = parser.path.parent
    process = train_parser("killed", folder, start)
    for line in process.stdout:
        if line.startswith("step 13/"):
            break
    process.kill()
    process.communicate()
    done = train_parser("killed", folder)
    assert done.code == 0, done.err
    assert "Resuming from step 10." in done.out
    resumed = weights(ModelDirectory(folder / "killed"))
    for name, array in weights(parser).items():
        assert array.tobytes() == resumed[name].tobytes()


def test_parses_are_those_of_tensorflow(parser):
    folder = parser.path.parent
    scale_weights(shutil.copytree(parser.path, folder / "other"))
    sentences = ["The protein binds to DNA .", "", "( one\u00a0two )", "x"]
    (folder / "in").write_text("\n".join([*sentences, "word " * 40]))
    for flags in (
        ["--scores"],
        ["--n_best=2", "--batch_tokens=20"],
        ["--scores", "--model=other", "--ensemble_mean=probabilities"],
    ):
        arguments = ["--model=m", "--input=in", *flags]
        results = [
            processes.run({"module": "export.parse"}, arguments, folder),
            run(*arguments, folder=folder, module="export.parse"),
        ]
        for done in results:
            assert done.code == 0, done.err
        assert results[0].out.count("\n") >= 5
        assert_same(*(done.out for done in results))


MEMORY_PROGRAM = """
import jax
import keras_transformer as kt
from trainers.training.jax_training_model import TrainingTransformer

config = kt.TransformerConfig.preset(
    "tiny", vocabulary_size=32_000, num_layers=1, d_model=64, d_ff=64
)
model = TrainingTransformer(config)
model.compile_for_training()
state = [
    [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in variables]
    for variables in (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
    )
]
ids = jax.ShapeDtypeStruct((128, 64), "int32")
flags = jax.ShapeDtypeStruct((1, 2), "float32")
step = jax.jit(model.train_step, donate_argnums=0).lower(
    tuple(state), ({"source": ids, "target": ids}, ids), flags
)
print(step.compile().memory_analysis().temp_size_in_bytes)
"""


def test_a_step_has_no_array_as_large_as_the_logits():
    done = subprocess.run(
        [sys.executable, "-c", MEMORY_PROGRAM],
        env=processes.user_environment() | {"KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    logits = 128 * 64 * 32_000 * 4
    assert int(done.stdout) < 0.9 * logits
