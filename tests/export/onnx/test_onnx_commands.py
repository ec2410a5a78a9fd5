"""export.onnx, and the commands and programs that run its files."""

import gc
import json
import re
import shutil
import subprocess
import sys
import weakref

import numpy as np
import pytest

from export.common.errors import InputError
from export.loading import load_translator, open_export
from export.onnx.onnx_session import OnnxSession
from export.tokenizers.python_tokenizers import PythonTokenizer
from tests import made_up_text
from tests.export import commands, tiny

TEXTS = [*made_up_text.sentences()[:12], "", "  "]


@pytest.fixture(name="model_dir", scope="module")
def fixture_model_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m"
    tiny.write(path, num_layers=2)
    return path


@pytest.fixture(name="folder", scope="module")
def fixture_folder(model_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("onnx") / "demo"
    code, out, err = export(
        model_dir, path, "--alignments", "--text", "--nocheck"
    )
    assert code == 0, err
    assert any(str(path) in line for line in out)
    return path


def export(model_dir, path, *flags):
    arguments = f"--model_dir={model_dir}", f"--output_dir={path}", *flags
    return commands.run("export.onnx", None, [], *arguments)


def test_translations_are_those_of_the_model(folder, model_dir):
    ours, model = load_translator(folder), load_translator(model_dir)
    assert ours.beam_size == model.beam_size
    for one, other in (
        (ours.n_best(TEXTS, 4), model.n_best(TEXTS, 4)),
        ([ours.align(TEXTS)], [model.align(TEXTS)]),
    ):
        for row, expected in zip(one, other, strict=True):
            assert [each.text for each in row] == [
                each.text for each in expected
            ]
            assert [each.alignment for each in row] == [
                each.alignment for each in expected
            ]
            for name in ("score", "word_log_probs"):
                np.testing.assert_allclose(
                    np.hstack([getattr(each, name) for each in row]),
                    np.hstack([getattr(each, name) for each in expected]),
                    atol=1e-4,
                )
    document = f"<p>{TEXTS[0]} <b>{TEXTS[1]}</b></p>"
    assert ours.translate_document(document, "html") == (
        model.translate_document(document, "html")
    )


def test_the_check_compares_all_signatures(folder, model_dir):
    arguments = f"--model_dir={model_dir}", str(folder)
    code, out, err = commands.run("export.check", None, [], *arguments)
    assert code == 0, err
    names = {line.split()[0] for line in out if " 72/72 " in line}
    assert names == {"serving_default", "n_best", "align", "lengths"}


@pytest.mark.slow
def test_the_check_finds_another_model(folder, tmp_path):
    other = tmp_path / "other"
    tiny.write(other, num_layers=2, seed=2)
    arguments = f"--model_dir={other}", str(folder)
    code, _, err = commands.run("export.check", None, [], *arguments)
    assert code == 2 and "different results" in err[-1]


def test_a_failed_check_leaves_nothing(model_dir, tmp_path, monkeypatch):
    failed = subprocess.CompletedProcess([], 2)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    assert export(model_dir, tmp_path / "new")[0] == 2
    assert not [*tmp_path.iterdir()]


def test_no_framework_is_imported(folder):
    program = (
        "import sys, export, export.http_server.app\n"
        "from export.http_server.models import load_model\n"
        f"translator = export.load_translator({str(folder)!r})\n"
        f"load_model({str(folder)!r}, {{}})\n"
        f"texts = {TEXTS!r}\n"
        "print(*(each.text for each in translator.align(texts)), sep='|')\n"
        "names = 'keras', 'tensorflow', 'jax', 'torch', 'h5py'\n"
        "print([name for name in names if name in sys.modules])\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    *lines, modules = process.stdout.splitlines()
    assert modules == "[]", process.stderr
    expected = load_translator(folder).translate(TEXTS)
    assert lines == ["|".join(each.text for each in expected)]


# In a process of its own: with TensorFlow Text, which has another version of
# SentencePiece, the operators crash.
TEXT_PROGRAM = """
import json, sys
import numpy as np, onnxruntime, onnxruntime_extensions
options = onnxruntime.SessionOptions()
options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
session = onnxruntime.InferenceSession(sys.argv[1], options)
for text in json.load(sys.stdin):
    values = session.run(None, {"text": np.array([text], object)})
    print(json.dumps([value[0].item() if value.dtype != object else value[0]
                      for value in values]))
"""


def test_text_in_and_out(folder):
    texts = [*TEXTS, "word " * 600]
    process = subprocess.run(
        [sys.executable, "-c", TEXT_PROGRAM, folder / "translate_text.onnx"],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    rows = map(json.loads, process.stdout.splitlines())
    expected = load_translator(folder).translate(texts)
    for text, row, translation in zip(texts, rows, expected, strict=True):
        found, score, truncated = row
        assert found == translation.text
        if text.strip():
            assert score == pytest.approx(translation.score, abs=1e-4)
        assert truncated == translation.source_truncated


def test_the_program_of_the_page(folder):
    page = (tiny.ROOT / "docs/ecosystem/onnx.md").read_text("utf-8")
    (program,) = re.findall(r"Python:\n\n```python\n(.*?)```", page, re.DOTALL)
    assert "onnx/demo" in program
    process = subprocess.run(
        [sys.executable, "-c", program.replace("onnx/demo", str(folder))],
        capture_output=True,
        text=True,
    )
    text = re.search(r'\["(.*)"\]', program)[1]
    (expected,) = load_translator(folder).translate([text])
    assert process.stdout == f"{expected.text}\n", process.stderr


def test_a_server_answers(folder):
    model = open_export(folder)
    outputs = model.run("serving_default", {"text": [b"a b", "a\0b", b"\xff"]})
    assert len(outputs["translation"]) == 3
    assert model.inputs["align"] == ["text"]


def test_nothing_keeps_what_was_loaded(folder):
    """A server loads and unloads exports for ever."""
    gc.collect()
    known = {id(each) for each in gc.get_objects()}
    model = open_export(folder)
    for signature in model.inputs:
        model.run(signature, {"text": TEXTS})
    kinds = OnnxSession, PythonTokenizer
    objects = [
        weakref.ref(each)
        for each in gc.get_objects()
        if isinstance(each, kinds) and id(each) not in known
    ]
    assert len(objects) > 1
    del model
    gc.collect()
    assert all(each() is None for each in objects)


def test_without_alignments(model_dir, tmp_path):
    path = tmp_path / "plain"
    assert export(model_dir, path, "--nocheck", "--beam_size=2")[0] == 0
    translator = load_translator(path)
    assert translator.beam_size == 2
    with pytest.raises(InputError, match="align"):
        translator.align(TEXTS)
    # Tags are placed in proportion.
    found = translator.translate_document("<b>ba</b> ba ba", "html")
    assert found.count("<b>") == found.count("</b>") == 1
    assert not (path / "translate_text.onnx").exists()


@pytest.mark.parametrize(
    ("fields", "flags", "name"),
    [
        ({"attention_window": 4}, (), "attention_window"),
        ({"retry_ngram_size": 4}, (), "retry_ngram_size"),
        ({}, ("--target_language=deu",), "deu"),
    ],
)
def test_refusals_name_the_field(fields, flags, name, tmp_path):
    tiny.write(tmp_path / "m", **fields)
    code, _, err = export(tmp_path / "m", tmp_path / "new", *flags)
    assert code == 2 and name in err[-1]
    assert not (tmp_path / "new").exists()


def test_bad_input(folder, model_dir, tmp_path):
    assert "exists" in export(model_dir, folder)[2][-1]
    damaged = tmp_path / "damaged"
    shutil.copytree(folder, damaged)
    (damaged / "translate.onnx").write_bytes(b"\0" * 100)
    with pytest.raises(InputError, match=r"translate\.onnx"):
        load_translator(damaged)
    with pytest.raises(InputError, match="beam_size"):
        load_translator(folder, beam_size=2)
    (damaged / "vocabulary.model").unlink()
    with pytest.raises(InputError, match=r"vocabulary\.model"):
        load_translator(damaged)
