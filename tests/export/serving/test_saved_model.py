"""The export command: what it writes, what it refuses, what it leaves."""

import gzip
import hashlib
import json
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401

from export.loading import load_translator
from export.model_directory import ModelDirectory
from export.serving import served_translator
from export.serving.export_directory import read_description
from export.serving.session import (
    read_meta_graph,
    read_signatures,
    unsupported_operations,
)
from export.translators.int8 import is_supported
from export.translators.output_vocabulary_files import (
    SHORTLIST_FILE,
    read_shortlist,
    read_target_pieces,
)
from tests import made_up_text
from tests.export import commands, tiny
from tests.export.translators.made_up_shortlist import made_up_shortlist

# Of tensorflow-text; linked into every stock server since 2.8.
TEXT_OPERATIONS = {
    "SentencepieceOp",
    "SentencepieceTokenizeOp",
    "SentencepieceTokenizeWithOffsetsOp",
    "SentencepieceDetokenizeOp",
    "SentencepieceIdToStringOp",
}
TEXT, SCORE = ("string", [None]), ("float32", [None])
TERMS = ("string", [None, None])
# Inputs, and outputs beside `truncated`.
SIGNATURES = {
    "serving_default": ({"text": TEXT}, {"translation": TEXT, "score": SCORE}),
    "translate_with_terms": (
        {"text": TEXT, "source_terms": TERMS, "target_terms": TERMS},
        {"translation": TEXT, "score": SCORE},
    ),
    "n_best": (
        {"text": TEXT},
        {
            "translations": ("string", [None, 4]),
            "scores": ("float32", [None, 4]),
        },
    ),
    "align": (
        {"text": TEXT},
        {
            "translation": TEXT,
            "score": SCORE,
            "source_tokens": ("string", [None, None]),
            "target_tokens": ("string", [None, None]),
            "source_words": ("int32", [None, None, 2]),
            "target_words": ("int32", [None, None, 2]),
            "alignment": ("float32", [None, None, None]),
            "token_log_probs": ("float32", [None, None]),
        },
    ),
    "tokens": (
        {"ids": ("int32", [None, None])},
        {"ids": ("int32", [None, 4, None]), "scores": ("float32", [None, 4])},
    ),
    "score": ({"text": TEXT, "translation": TEXT}, {"score": SCORE}),
    "lengths": (
        {"text": TEXT},
        {
            "length": ("int32", [None]),
            "limit": ("int32", [None]),
            "translation_length": ("int32", [None]),
            "translation_limit": ("int32", [None]),
            "translation_truncated": ("bool", [None]),
        },
    ),
}


@pytest.fixture
def export(model_path, tmp_path):
    """Exports the tiny model to tmp_path/e; returns what it says last."""

    def run(*arguments, code=2):
        found, lines, err = commands.run(
            *("export.saved_model", None, []),
            f"--model_dir={model_path}",
            f"--export_dir={tmp_path / 'e'}",
            *arguments,
        )
        assert found in (0, code), err
        assert not found or lines in ([], [CHECKING])
        return err[-1] if found else None

    return run


CHECKING = "Checking the export before it gets its name:"


@pytest.fixture
def light(monkeypatch):
    """Signatures without a search, which takes seconds to trace."""

    class Light(served_translator.ServedTranslator):
        translate = translate_with_terms = translate_languages = n_best = None
        align = score = tokens = None

        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self._best = self._all = None

        def signatures(self):
            return {"lengths": self.lengths}

    monkeypatch.setattr(served_translator, "ServedTranslator", Light)


def below(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_command_writes_one_version_and_says_how_to_serve(export_command):
    export_dir, code, out, err = export_command
    assert code == 0
    assert "Traceback" not in err
    for words in (str(export_dir / "1"), f"{export_dir}:/models/translator"):
        assert words in out
    assert below(export_dir) == ["1"]
    assert {"saved_model.pb", "variables"} <= set(below(export_dir / "1"))
    assert below(export_dir / "1" / "assets.extra") == [
        "tf_serving_warmup_requests",
        "translator.json",
    ]
    # The check ran, and every answer was the model's.
    rows = [line.split() for line in out.splitlines()]
    found = {row[0]: row for row in rows if row and row[0] in SIGNATURES}
    assert found.keys() == SIGNATURES.keys()
    for row in found.values():
        assert (row[1], row[5]) == ("2", "72/72")
        assert float(row[6]) <= 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("quantization", [None, "int8"])
@pytest.mark.parametrize("kind", ["target_pieces", "shortlist"])
def test_an_export_of_a_reduced_vocabulary_passes_its_check(
    export, tmp_path, model_path, server, kind, quantization
):
    if quantization is not None and not is_supported():
        pytest.skip("the processor cannot multiply int8 exactly")
    directory, path = ModelDirectory(model_path), tmp_path / "file"
    tokenizer, config = directory.load_tokenizer(), directory.read_config()
    version = tmp_path / "e" / "1"
    flags = [f"--{kind}={path}", "--beam_size=3", "--max_extra_tokens=2"]
    if quantization is not None:
        flags.append(f"--quantization={quantization}")
    if kind == "shortlist":
        path.write_text(made_up_shortlist(tokenizer), encoding="utf-8")
        assert export(*flags, "--shortlist_size=40") is None
        copied = gzip.decompress((version / SHORTLIST_FILE).read_bytes())
        assert copied == path.read_bytes()
        value, size = read_shortlist(path, tokenizer, config, 40), 40
    else:
        path.write_text("\n".join(made_up_text.sentences()[40:44]))
        assert export(*flags) is None
        value = read_target_pieces(version)
        size = len(value)
        assert 32 <= size < 200
    limits = read_description(version)["limits"]
    assert (limits[kind], limits["beam_size"]) == (size, 3)
    search = {
        "beam_size": 3,
        "max_extra_tokens": 2,
        "quantization": quantization,
    }
    texts = made_up_text.sentences()[:5]
    found = server.run(version, text=texts).texts("translation")
    for given in ({kind: value}, {}):
        translator = load_translator(model_path, **search, **given)
        expected = [each.text for each in translator.translate(texts)]
        assert (found == expected) == bool(given)
    assert unsupported_operations(read_meta_graph(version)) == []


def test_the_export_describes_itself(exported, model_path):
    found = read_description(exported)
    directory = ModelDirectory(model_path)
    config = json.loads(directory.config_path.read_text())
    assert found["configuration"] == config
    assert found["parameters"] == directory.load_model().count_params()
    assert found["vocabulary"] == {
        "size": 200,
        "sha256": hashlib.sha256(directory.read_vocabulary()).hexdigest(),
    }
    assert found["limits"] == {
        "beam_size": 4,
        "alpha": 0.6,
        "stop_criterion": "exact",
        "max_source_tokens": tiny.MAX_SOURCE_TOKENS,
        "max_extra_tokens": tiny.CONFIG["max_extra_tokens"],
        "target_pieces": None,
        "shortlist": None,
        "quantization": None,
    }
    assert found["signatures"] == sorted(SIGNATURES)
    assert found["versions"]["tensorflow"] == tf.__version__
    assert found["dataset"] == "made up"


def test_each_model_of_a_process_has_its_own_output_matrix():
    embeddings = [tf.Variable(tf.fill([3, 2], n), name="e") for n in (1.0, 2.0)]
    matrices = [*map(served_translator._OutputMatrix, embeddings)]
    for matrix, variable in zip(matrices, embeddings):
        assert np.array_equal(matrix.read(), tf.transpose(variable))


def test_variables_are_stored_once_and_not_in_the_graph(exported, model_path):
    variables = str(exported / "variables/variables")
    found = [
        tf.train.load_variable(variables, name)
        for name, _ in tf.train.list_variables(variables)
        if name != "_CHECKPOINTABLE_OBJECT_GRAPH"
    ]
    model = ModelDirectory(model_path).load_model()
    assert sum(array.size for array in found) == model.count_params()
    sums = sorted(float(np.sum(array)) for array in found)
    expected = sorted(float(np.sum(w.numpy())) for w in model.weights)
    np.testing.assert_allclose(sums, expected, atol=1e-6)
    graph = (exported / "saved_model.pb").read_bytes()
    assert len(graph) < 4_000_000
    matrices = [w.numpy() for w in model.weights if len(w.shape) == 2]
    assert len(matrices) > 10
    for matrix in matrices:
        # The logits' matrix is used transposed.
        for array in (matrix, matrix.T):
            assert array.tobytes() not in graph


def describe(infos):
    return {
        name: (
            tf.as_dtype(info.dtype).name,
            tf.TensorShape(info.tensor_shape).as_list(),
        )
        for name, info in infos.items()
    }


def test_a_stock_server_has_every_operation(exported):
    meta_graph = read_meta_graph(exported)
    library = meta_graph.graph_def.library.function
    nodes = [*meta_graph.graph_def.node]
    for function in library:
        nodes.extend(function.node_def)
    functions = {f.signature.name for f in library}
    operations = {node.op for node in nodes} - functions
    assert len(operations) > 20
    others = {op for op in operations if not hasattr(tf.raw_ops, op)}
    assert others <= TEXT_OPERATIONS
    assert unsupported_operations(meta_graph) == []
    for name, signature in read_signatures(meta_graph).items():
        inputs, outputs = SIGNATURES[name]
        assert describe(signature.inputs) == inputs
        expected = outputs | {"truncated": ("bool", [None])}
        assert describe(signature.outputs) == expected
    assert len(meta_graph.asset_file_def) == 0
    assert not any((exported / "assets").glob("*"))


def test_what_is_there_is_never_overwritten(export, tmp_path):
    (tmp_path / "e" / "3").mkdir(parents=True)
    (tmp_path / "e" / "3" / "saved_model.pb").write_bytes(b"old")
    assert str(tmp_path / "e" / "3") in export("--version=3")
    assert below(tmp_path / "e") == ["3"]
    assert (tmp_path / "e/3/saved_model.pb").read_bytes() == b"old"
    shutil.rmtree(tmp_path / "e")
    (tmp_path / "e").write_bytes(b"old")
    assert str(tmp_path / "e") in export("--nocheck")
    assert (tmp_path / "e").read_bytes() == b"old"


def test_a_failure_leaves_nothing_half_written(
    export, light, tmp_path, monkeypatch
):
    (tmp_path / "e" / "1").mkdir(parents=True)
    failed = subprocess.CompletedProcess([], 2)
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", lambda *_, **__: failed)
        assert "did not pass" in export()
    assert below(tmp_path / "e") == ["1"]

    def interrupt(servable, path, signatures):
        pathlib.Path(path, "variables").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(tf.saved_model, "save", interrupt)
    assert export(code=130) == "Interrupted."
    assert below(tmp_path / "e") == ["1"]


def test_a_really_full_disk(small_disk, light, export):
    (small_disk / "1").mkdir()
    (small_disk / "1" / "saved_model.pb").write_bytes(b"x" * 1_030_000)
    message = export(f"--export_dir={small_disk}", "--nocheck")
    assert str(small_disk / "2") in message
    assert "No space left on device" in message
    assert below(small_disk) == ["1"]
