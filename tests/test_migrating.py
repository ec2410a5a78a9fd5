"""docs/ecosystem/migrating.md: its programs run and agree."""

import re
import shutil

import numpy as np
import pytest

from export.loading import load_translator
from export.pretrained.hugging_face_reader import read_generation
from export.pretrained.hugging_face_writer import write_hugging_face
from tests import made_up_text, processes
from tests.export import tiny
from trainers.data.vocabulary import train_vocabulary

PAGE = (processes.ROOT / "docs/ecosystem/migrating.md").read_text("utf-8")
PAGE = PAGE.replace("\\\n", "")
# Settings of transformers, of this project, and whether results are equal.
ROW = r"^\| `(\w+)=(\S+)` \| `(\w+)=(\S+)` \| (\w+)"
ROWS = [
    ({name: eval(value)}, {our_name: eval(our_value)}, equal)
    for name, value, our_name, our_value, equal in re.findall(ROW, PAGE, re.M)
]
TEXTS = ["How are you?", "I am cold.", "Comment vas-tu ?", "froid vous"]
TEXTS += made_up_text.sentences(16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("migrating")
    # As MarianMTModel computes; with this seed and bias most outputs end.
    options = {"norm": "post", "share_embeddings": "all", "output_bias": True}
    options |= {"layer_norm_epsilon": 1e-5, "stop_criterion": "heuristic"}
    options |= {"vocabulary_size": 80, "max_extra_tokens": 80, "alpha": 1.0}
    model = tiny.model(seed=11, **options)
    model.output_embedding.bias.assign(2.0 * (np.arange(80) == 3))
    (hf := path / "opus-mt-en-fr").mkdir()
    write_hugging_face(model, train_vocabulary(TEXTS, 80), ("en", "fr"), hf)
    archive = processes.ROOT / "tests" / "data" / "m2m" / "models.tar.xz"
    shutil.unpack_archive(archive, path, filter="data")
    for command in re.findall(r"^python -m (export\.import.*)", PAGE, re.M):
        module, *flags = command.split()
        assert processes.run({"module": module}, flags, path).code == 0
    return path


def run_blocks(program, folder, monkeypatch):
    monkeypatch.chdir(folder)
    blocks = re.findall(rf"```python\n# {program}\n(.*?)```", PAGE, re.S)
    exec("".join(blocks), variables := {})
    return variables


@pytest.mark.slow
def test_programs_run_and_imports_read_settings(folder, monkeypatch):
    ours = run_blocks("keras_transformer", folder, monkeypatch)
    assert ours["n_best"][::2] == ours["translations"]
    assert ours["decoded"] == ours["translations"][:1]
    assert ours["prefixed"][0].text.startswith("Comment")
    you, cold = (each.text.split() for each in ours["with_terms"])
    assert "vous" in you and {"froid", "froide"} & {*cold}
    assert [len(each) for each in ours["samples"]] == [3, 3]
    ids = {"decoder_start_token_id": 79, "eos_token_id": 0}
    for options, settings, _ in ROWS:
        imported, warnings = read_generation({}, ids | options)
        is_read = settings.items() <= imported.search_fields.items()
        assert is_read or "min_new_tokens=5" in str(warnings)


@pytest.mark.slow
def test_transformers_agrees(folder, monkeypatch):
    pytest.importorskip("transformers")
    ours = run_blocks("keras_transformer", folder, monkeypatch)
    others = run_blocks("transformers", folder, monkeypatch)
    assert [text.strip() for text in others["n_best"]] == ours["n_best"]
    for name in ("scores", "log_probability"):
        np.testing.assert_allclose(ours[name], others[name], 1e-4)
    cross = others["cross"][0].detach()
    np.testing.assert_allclose(ours["cross"][0], cross, atol=1e-5)
    tokenizer = others["MarianTokenizer"].from_pretrained("opus-mt-en-fr")
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
    for options, settings in [row[:2] for row in ROWS if row[2] == "yes"]:
        ids = others["model"].generate(**batch, **options)
        # Their limit of 80 tokens is another one here.
        ended = (ids[:, :80] == tokenizer.eos_token_id).any(1).numpy()
        texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
        found = load_translator("runs/opus", **{"min_length": 0} | settings)
        both = [[each.text for each in found.translate(TEXTS)], texts]
        np.testing.assert_array_equal(*np.strings.strip(both)[:, ended])
        assert ended.sum() > 10
