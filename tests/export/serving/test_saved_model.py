"""The export command: what it writes, what it refuses, what it leaves."""

import gzip
import hashlib
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401
from tensorflow_serving.apis import prediction_log_pb2

from export.model_directory import ModelDirectory
from export.serving.export_directory import read_description
from export.serving.session import (
    foreign_operations,
    read_meta_graph,
    signatures_of,
)
from export.translators.output_vocabulary_files import (
    SHORTLIST_FILE,
    read_ids,
    read_shortlist,
)
from export.translators.text_ids import pad_ids
from export.translators.translator import Translator
from tests import made_up_text
from tests.export import saved_model_runs, tiny
from tests.export.translators.made_up_shortlist import made_up_shortlist

# Of tensorflow-text; linked into every stock server since 2.8.
TEXT_OPERATIONS = {
    "SentencepieceOp",
    "SentencepieceTokenizeOp",
    "SentencepieceTokenizeWithOffsetsOp",
    "SentencepieceDetokenizeOp",
    "SentencepieceIdToStringOp",
}
TEXT, SCORE, TRUNCATED = ("string", [None]), ("float32", [None]), "truncated"
# Inputs and outputs, where `truncated` is one of each.
SIGNATURES = {
    "serving_default": ({"text": TEXT}, {"translation": TEXT, "score": SCORE}),
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
        },
    ),
    "tokens": (
        {"ids": ("int32", [None, None])},
        {"ids": ("int32", [None, 4, None]), "scores": ("float32", [None, 4])},
    ),
    "score": ({"text": TEXT, "translation": TEXT}, {"score": SCORE}),
    "lengths": (
        {"text": TEXT},
        {"length": ("int32", [None]), "limit": ("int32", [None])},
    ),
}


@pytest.fixture(scope="module")
def meta_graph(exported):
    return read_meta_graph(exported)


@pytest.fixture
def export(other_process, model_path, tmp_path):
    """Runs the command's main on the tiny model; exports to tmp_path/e."""

    def exported_with(*arguments, function=saved_model_runs.run):
        return other_process(
            function,
            f"--model_dir={model_path}",
            f"--export_dir={tmp_path / 'e'}",
            *arguments,
        )

    return exported_with


def below(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_command_writes_one_version_and_says_how_to_serve(export_command):
    export_dir, done = export_command
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    for words in (str(export_dir / "1"), f"{export_dir}:/models/translator"):
        assert words in done.stdout
    assert below(export_dir) == ["1"]
    assert {"saved_model.pb", "variables"} <= set(below(export_dir / "1"))
    assert below(export_dir / "1" / "assets.extra") == [
        "tf_serving_warmup_requests",
        "translator.json",
    ]


def test_the_check_ran_and_every_answer_was_the_models(export_command):
    rows = [line.split() for line in export_command[1].stdout.splitlines()]
    found = {row[0]: row for row in rows if row and row[0] in SIGNATURES}
    assert found.keys() == SIGNATURES.keys()
    for row in found.values():
        assert (row[1], row[5]) == ("2", "72/72")
        assert float(row[6]) <= 1e-3


@pytest.mark.slow
def test_an_export_with_a_search_of_its_own_passes_its_check(export, tmp_path):
    _, refused = export(
        "--beam_size=3",
        "--alpha=1",
        "--stop_criterion=k_finished",
        "--max_extra_tokens=2",
    )
    assert refused is None
    limits = read_description(tmp_path / "e" / "1")["limits"]
    assert (limits["beam_size"], limits["alpha"]) == (3, 1.0)
    assert (limits["stop_criterion"], limits["max_extra_tokens"]) == (
        "k_finished",
        2,
    )
    assert tiny.CONFIG["max_extra_tokens"] != 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["target_pieces", "shortlist"])
def test_an_export_of_a_restricted_vocabulary_passes_its_check(
    export, tmp_path, model_path, server, kind
):
    directory, path = ModelDirectory(model_path), tmp_path / "file"
    tokenizer, config = directory.load_tokenizer(), directory.read_config()
    version = tmp_path / "e" / "1"
    if kind == "shortlist":
        path.write_text(made_up_shortlist(tokenizer), encoding="utf-8")
        assert export(f"--shortlist={path}", "--shortlist_size=40")[1] is None
        copied = gzip.decompress((version / SHORTLIST_FILE).read_bytes())
        assert copied == path.read_bytes()
        value = read_shortlist(path, tokenizer, config, 40)
        size, invalid = 40, [f"--shortlist={path}", "--shortlist_size=200"]
    else:
        path.write_text("\n".join(made_up_text.sentences()[40:44]))
        assert export(f"--target_pieces={path}")[1] is None
        value = read_ids(version)
        size, invalid = len(value), [f"--target_pieces={tmp_path / 'none'}"]
        assert 32 <= size < 200
    assert read_description(version)["limits"][kind] == size
    translator = Translator.from_directory(model_path, **{kind: value})
    texts = made_up_text.sentences()[:5]
    found = server.run(version, text=texts).texts("translation")
    assert found == [each.text for each in translator.translate(texts)]
    whole = Translator.from_directory(model_path)
    assert found != [each.text for each in whole.translate(texts)]
    assert foreign_operations(read_meta_graph(version)) == []
    if kind == "target_pieces":
        ids = pad_ids(translator.tokenizer.encode(texts))
        tokens = server.run(version, "tokens", ids=ids).arrays["ids"]
        assert set(tokens.ravel().tolist()) <= set(value)
    assert invalid[0].split("=")[0] in export(*invalid)[1] or (
        "none" in export(*invalid)[1]
    )


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
    }
    assert {
        name: tuple(
            {key: (each["dtype"], each["shape"]) for key, each in infos.items()}
            for infos in (sides["inputs"], sides["outputs"])
        )
        for name, sides in found["signatures"].items()
    } == {
        name: (inputs, outputs | {"truncated": ("bool", [None])})
        for name, (inputs, outputs) in SIGNATURES.items()
    }
    assert found["versions"]["tensorflow"] == tf.__version__
    assert (found["dataset"], found["preset"]) == ("made up", None)


def test_a_servers_own_code_reads_the_warm_up_requests(exported, server):
    path = exported / "assets.extra" / "tf_serving_warmup_requests"
    names = []
    for record in tf.data.TFRecordDataset(str(path)):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        assert log.WhichOneof("log_type") == "predict_log"
        request = log.predict_log.request
        assert request.model_spec.name == "translator"
        names.append(request.model_spec.signature_name)
        inputs = {
            key: tf.make_ndarray(tensor)
            for key, tensor in request.inputs.items()
        }
        answer = server.run(exported, names[-1], **inputs).arrays
        assert not answer["truncated"].any()
    assert sorted(names) == sorted([*SIGNATURES] * 2)


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
    assert len(graph) < 3_000_000
    matrices = [w.numpy() for w in model.weights if len(w.shape) == 2]
    assert len(matrices) > 10
    for matrix in matrices:
        # The logits' matrix is used transposed.
        for array in (matrix, matrix.T):
            assert array.tobytes() not in graph


def test_a_stock_server_has_every_operation(exported, meta_graph):
    library = meta_graph.graph_def.library.function
    nodes = [*meta_graph.graph_def.node]
    for function in library:
        nodes.extend(function.node_def)
    functions = {f.signature.name for f in library}
    operations = {node.op for node in nodes} - functions
    assert len(operations) > 20
    others = {op for op in operations if not hasattr(tf.raw_ops, op)}
    assert others <= TEXT_OPERATIONS
    assert foreign_operations(meta_graph) == []
    assert signatures_of(meta_graph).keys() == SIGNATURES.keys()
    assert len(meta_graph.asset_file_def) == 0
    assert not any((exported / "assets").glob("*"))


def test_what_is_there_is_never_overwritten(export, tmp_path):
    (tmp_path / "e" / "3").mkdir(parents=True)
    (tmp_path / "e" / "3" / "saved_model.pb").write_bytes(b"old")
    assert str(tmp_path / "e" / "3") in export("--version=3")[1]
    assert below(tmp_path / "e") == ["3"]
    assert (tmp_path / "e/3/saved_model.pb").read_bytes() == b"old"
    shutil.rmtree(tmp_path / "e")
    (tmp_path / "e").write_bytes(b"old")
    assert str(tmp_path / "e") in export()[1]
    assert (tmp_path / "e").read_bytes() == b"old"


@pytest.mark.parametrize(
    "function",
    [saved_model_runs.run_interrupted, saved_model_runs.run_failing_the_check],
)
def test_a_failure_leaves_nothing_half_written(export, tmp_path, function):
    (tmp_path / "e" / "1").mkdir(parents=True)
    assert export(function=function)[1] is not None
    assert below(tmp_path / "e") == ["1"]


def test_a_really_full_disk(small_disk, other_process, model_path):
    (small_disk / "1").mkdir()
    (small_disk / "1" / "saved_model.pb").write_bytes(b"x" * 900_000)
    printed, message = other_process(
        saved_model_runs.run,
        f"--model_dir={model_path}",
        f"--export_dir={small_disk}",
    )
    assert printed == ""
    assert str(small_disk / "2") in message
    assert "No space left on device" in message
    assert below(small_disk) == ["1"]


@pytest.mark.parametrize("broken", [None, "model.weights.h5"])
def test_an_incomplete_directory_is_named(export, model_path, tmp_path, broken):
    missing = tmp_path / "m"
    if broken is not None:
        shutil.copytree(model_path, tmp_path / "m")
        missing = tmp_path / "m" / broken
        missing.unlink()
    _, message = export(f"--model_dir={tmp_path / 'm'}")
    assert str(missing) in message
    assert not (tmp_path / "e").exists()
