"""A model that Marian can represent, and the programs that read its files."""

import json
import re
import shutil
import subprocess

import pytest

from export.model_directory import ModelDirectory
from export.tokenizers.python_tokenizers import join_vocabularies
from keras_transformer.config import BEGIN_ID, PAD_ID
from tests import made_up_text, processes
from tests.export import tiny
from tests.trainers import cipher

TEXTS = made_up_text.sentences(50, 3)
CONFIG = {
    "norm": "post",
    "sinusoid_rates": "marian",
    "share_embeddings": "all",
    "num_layers": 2,
    "num_decoder_layers": 1,
    "d_model": 64,
    "d_ff": 128,
    "num_heads": 4,
    "d_k": 16,
    "d_v": 16,
    "beam_size": 3,
    "alpha": 0.7,
    "length_penalty": "power",
    "stop_criterion": "k_finished",
    "output_bias": True,
}
_MARIAN = """
import sys, _pymarian
translator = _pymarian.Translator(
    f"--config {sys.argv[1]}/decoder.yml --cpu-threads 1 --mini-batch 1 "
    "--maxi-batch 1 --quiet --quiet-translation " + sys.argv[2]
)
for line in sys.stdin.read().splitlines():
    print(translator.translate(line))
"""


def write_model(path, **changes):
    """Writes a directory with random weights; returns its model.

    A bias excludes padding and begin, which Marian does not have, from the
    softmax.
    """
    model = tiny.model(seed=4, **CONFIG | changes)
    bias = model.output_embedding.bias
    if bias is not None:
        values = bias.numpy()
        values[[PAD_ID, BEGIN_ID]] = -1e9
        bias.assign(values)
    vocabulary = made_up_text.vocabulary(model.config.vocabulary_size)
    size = model.config.source_vocabulary_size
    if size:
        source = made_up_text.vocabulary(size, seed=2)
        vocabulary = join_vocabularies(source, vocabulary)
    ModelDirectory(path).write(model, vocabulary, {"dataset": "made up"})
    return model


def train_cipher(path):
    """Trains a model of the toy language pair in half a minute."""
    pairs = cipher.sentences(3_000, 1), cipher.sentences(50, 7)
    for split, each in zip(("train", "dev"), pairs):
        cipher.write_split(path.parent, f"toy.{split}", *zip(*each))
    changes = {"d_model": 64, "d_ff": 128, "d_k": 16, "d_v": 16}
    changes |= {"num_layers": 1, "sinusoid_rates": "marian"}
    changes |= {"vocabulary_size": 80, "warmup_steps": 100}
    changes |= {"batch_tokens": 1024, "average_checkpoints": 0}
    flags = f"--dataset=text:{path.parent / 'toy'} --model_dir={path} "
    flags += "--source_language=en --target_language=xx --train_steps=250 "
    flags += "--attention_steps=0 --noise=off --copy_rate=0"
    flags = flags.split() + [f"--set={n}={v}" for n, v in changes.items()]
    done = processes.run({"module": "trainers.wmt"}, flags)
    assert done.code == 0, done.err


def run(command, text="", **options):
    """Returns the lines that a program prints, given those of a text."""
    command = [str(each) for each in command]
    found = subprocess.run(
        command, input=text, capture_output=True, text=True, **options
    )
    assert found.returncode == 0, found.stderr[-1000:]
    return found.stdout.splitlines()


def translate_with_marian(cache, folder, texts, options=""):
    """Returns Marian's translations of texts.

    Its extension is installed once into pytest's cache, without the packages
    that it names, which it does not need.
    """
    found = shutil.which("python3.11")
    if found is None:
        pytest.skip("pymarian has wheels up to Python 3.11 only")
    place = cache.mkdir("pymarian-1.12.42")
    python, installed = place / "bin" / "python", place / "installed"
    if not installed.exists():
        run([found, "-m", "venv", "--clear", place])
        install = [python, "-m", "pip", "install", "--quiet", "--no-deps"]
        run([*install, "pymarian==1.12.42"])
        installed.touch()
    return run([python, "-c", _MARIAN, folder, options], "\n".join(texts))


def translate_with_bergamot(cache, folder, texts, mode):
    """Returns the engine's translations by the program of docs/pretrained.md.

    Its package is installed once into pytest's cache; `mode` is text or html.
    """
    if shutil.which("npm") is None:
        pytest.skip("there is no npm")
    place = cache.mkdir("bergamot-translator-0.4.9")
    page = (processes.ROOT / "docs" / "pretrained.md").read_text("utf-8")
    (program,) = re.findall("```js\n(.*?)```", page, re.DOTALL)
    (place / "translate.mjs").write_text(program, "utf-8")
    package = place / "node_modules" / "@browsermt" / "bergamot-translator"
    if not (package / "worker" / "package.json").exists():
        (place / "package.json").write_text(json.dumps({"private": True}))
        (commands,) = re.findall("```bash\n(npm .*?)```", page, re.DOTALL)
        run(["bash", "-ec", commands], cwd=place)
    lines = "\n".join(texts)
    return run(["node", "translate.mjs", folder, mode], lines, cwd=place)
