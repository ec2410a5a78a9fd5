"""The export command: what it writes, what it refuses, what it leaves."""

import collections
import gzip
import hashlib
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

from export.model_directory import ModelDirectory
from export.server_runtime.saved_model import (
    foreign_operations,
    read_description,
)
from export.translators import shortlist
from export.translators.target_pieces import read_ids
from export.translators.text_ids import padded
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
# They need Python, XLA or a file in the server's process, or grow there.
FOREIGN = ("Py", "EagerPy", "Xla", "Numpy", "Lookup", "HashTable", "Mutable")


def megabytes(folder):
    sizes = [path.stat().st_size for path in folder.rglob("*")]
    return sum(sizes) / 1e6


@pytest.fixture(scope="module")
def meta_graph(exported):
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((exported / "saved_model.pb").read_bytes())
    (meta_graph,) = saved.meta_graphs
    return meta_graph


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


@pytest.fixture
def number(export):
    """The same without saving: for the numbers of versions."""
    return lambda *arguments: export(
        *arguments, function=saved_model_runs.run_without_saving
    )


def below(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_command_says_what_it_wrote_and_how_to_serve(export_command):
    export_dir, done = export_command
    assert done.returncode == 0
    assert str(export_dir / "1") in done.stdout
    assert "serving_default" in done.stdout
    assert f"{export_dir}:/models/" in done.stdout
    assert "Traceback" not in done.stderr


def test_the_first_version_is_1_and_nothing_else_is_there(exported):
    assert below(exported.parent) == ["1"]
    expected = {"saved_model.pb", "variables", "assets.extra"}
    assert expected <= set(below(exported))
    assert below(exported / "assets.extra") == [
        "tf_serving_warmup_requests",
        "translator.json",
    ]


def test_the_check_ran_and_every_answer_was_the_models(export_command):
    _, done = export_command
    assert "Checking the export" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    found = {row[0]: row for row in rows if row and row[0] in SIGNATURES}
    assert found.keys() == SIGNATURES.keys()
    for row in found.values():
        assert row[1] == "2"
        assert row[5] == "72/72"
        assert float(row[6]) <= 1e-3
    assert "lacks: none." in done.stdout


@pytest.mark.slow
def test_an_export_with_a_search_of_its_own_passes_its_check(export, tmp_path):
    _, refused = export(
        "--beam_size=3", "--alpha=1", "--stop=finished", "--max_output_extra=2"
    )
    assert refused is None
    path = tmp_path / "e" / "1" / "assets.extra" / "translator.json"
    limits = json.loads(path.read_text())["limits"]
    assert (limits["beam_size"], limits["alpha"]) == (3, 1.0)
    assert limits["stop"] == "finished"
    assert limits["max_output_extra"] == 2
    assert tiny.CONFIG["max_output_extra"] != 2


@pytest.mark.slow
def test_an_export_of_target_pieces_passes_its_check(
    export, tmp_path, model_path, server
):
    text = tmp_path / "text"
    text.write_text("\n".join(made_up_text.sentences()[40:44]))
    printed, refused = export(f"--target_pieces={text}")
    assert refused is None
    version = tmp_path / "e" / "1"
    ids = read_ids(version)
    assert 32 <= len(ids) < 200
    assert read_description(version)["limits"]["target_pieces"] == len(ids)
    translator = Translator.from_directory(model_path, target_pieces=ids)
    texts = made_up_text.sentences()[:5]
    found = server.run(version, text=texts).texts("translation")
    assert found == [each.text for each in translator.translate(texts)]
    assert foreign_operations(version) == []
    said = server.run(
        version, "tokens", ids=padded(translator.tokenizer.encode(texts))
    )
    assert set(said.arrays["ids"].ravel().tolist()) <= set(ids)
    _, refused = export(f"--target_pieces={tmp_path / 'none'}")
    assert "Cannot read" in refused


@pytest.mark.slow
def test_an_export_with_a_shortlist_passes_its_check(
    export, tmp_path, model_path, server
):
    path = tmp_path / "lex"
    directory = ModelDirectory(model_path)
    tokenizer, config = directory.load_tokenizer(), directory.read_config()
    path.write_text(made_up_shortlist(tokenizer), encoding="utf-8")
    _, refused = export(f"--shortlist={path}", "--shortlist_size=40")
    assert refused is None
    version = tmp_path / "e" / "1"
    assert read_description(version)["limits"]["shortlist"] == 40
    copied = gzip.decompress((version / shortlist.FILE).read_bytes())
    assert copied == path.read_bytes()
    held = shortlist.read_shortlist(path, tokenizer, config, 40)
    translator = Translator.from_directory(model_path, shortlist=held)
    texts = made_up_text.sentences()[:5]
    found = server.run(version, text=texts).texts("translation")
    assert found == [each.text for each in translator.translate(texts)]
    whole = Translator.from_directory(model_path)
    assert found != [each.text for each in whole.translate(texts)]
    assert foreign_operations(version) == []
    _, refused = export(f"--shortlist={path}", "--shortlist_size=200")
    assert "leaves none out" in refused


def test_the_export_says_what_it_is(exported, model_path):
    path = exported / "assets.extra" / "translator.json"
    found = json.loads(path.read_text())
    directory = ModelDirectory(model_path)
    vocabulary = directory.read_vocabulary()
    assert found["configuration"] == json.loads(
        directory.config_path.read_text()
    )
    assert found["parameters"] == directory.load_model().count_params()
    assert found["vocabulary"] == {
        "size": 200,
        "sha256": hashlib.sha256(vocabulary).hexdigest(),
    }
    assert found["limits"] == {
        "beam_size": 4,
        "alpha": 0.6,
        "stop": "certain",
        "max_source_tokens": tiny.MAX_SOURCE_TOKENS,
        "max_output_extra": tiny.CONFIG["max_output_extra"],
        "target_pieces": None,
        "shortlist": None,
    }
    assert found["signatures"].keys() == SIGNATURES.keys()
    for name, sides in SIGNATURES.items():
        for side, infos in zip(("inputs", "outputs"), sides):
            said = found["signatures"][name][side]
            assert {
                each: (info["dtype"], [-1 if n is None else n for n in shape])
                for each, info in said.items()
                for shape in [info["shape"]]
            } == infos
    assert found["versions"]["tensorflow"] == tf.__version__
    assert found["dataset"] == "made up"
    assert found["preset"] is None


def test_a_servers_own_code_reads_the_warm_up_requests(exported, server):
    path = exported / "assets.extra" / "tf_serving_warmup_requests"
    asked = collections.Counter()
    for record in tf.data.TFRecordDataset(str(path)):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        assert log.WhichOneof("log_type") == "predict_log"
        request = log.predict_log.request
        assert request.model_spec.name == "translator"
        name = request.model_spec.signature_name
        inputs = {
            key: tf.make_ndarray(tensor)
            for key, tensor in request.inputs.items()
        }
        for key, array in inputs.items():
            if array.dtype == object:
                inputs[key] = array.tolist()
        answer = server.run(exported, name, **inputs).arrays
        assert not answer["truncated"].any()
        asked[name] += 1
    assert asked == dict.fromkeys(SIGNATURES, 2)


def test_it_is_not_much_larger_than_the_weights(exported, model_path):
    weights = ModelDirectory(model_path).weights_path.stat().st_size / 1e6
    assert megabytes(exported) <= weights + 3


def test_variables_are_stored_once(exported, model_path):
    found = [
        tf.train.load_variable(str(exported / "variables/variables"), name)
        for name, shape in tf.train.list_variables(
            str(exported / "variables/variables")
        )
        if name != "_CHECKPOINTABLE_OBJECT_GRAPH"
    ]
    model = ModelDirectory(model_path).load_model()
    assert sum(array.size for array in found) == model.count_params()
    sums = sorted(float(np.sum(array)) for array in found)
    expected = sorted(float(np.sum(w.numpy())) for w in model.weights)
    np.testing.assert_allclose(sums, expected, atol=1e-6)


def test_weights_are_not_in_the_graph_as_well(exported, model_path):
    graph = (exported / "saved_model.pb").read_bytes()
    assert len(graph) < 3_000_000
    model = ModelDirectory(model_path).load_model()
    matrices = [
        weight.numpy() for weight in model.weights if len(weight.shape) == 2
    ]
    assert len(matrices) > 10
    for matrix in matrices:
        # As the logits' matrix is used.
        for kept in (matrix, matrix.T):
            assert kept.tobytes() not in graph


TEXT = ("string", [-1])
TRUNCATED = {"truncated": ("bool", [-1])}
SIGNATURES = {
    "serving_default": (
        {"text": TEXT},
        {"translation": TEXT, "score": ("float32", [-1]), **TRUNCATED},
    ),
    "n_best": (
        {"text": TEXT},
        {
            "translations": ("string", [-1, 4]),
            "scores": ("float32", [-1, 4]),
            **TRUNCATED,
        },
    ),
    "align": (
        {"text": TEXT},
        {
            "translation": TEXT,
            "score": ("float32", [-1]),
            "source_tokens": ("string", [-1, -1]),
            "target_tokens": ("string", [-1, -1]),
            "source_words": ("int32", [-1, -1, 2]),
            "target_words": ("int32", [-1, -1, 2]),
            "alignment": ("float32", [-1, -1, -1]),
            **TRUNCATED,
        },
    ),
    "tokens": (
        {"ids": ("int32", [-1, -1])},
        {
            "ids": ("int32", [-1, 4, -1]),
            "scores": ("float32", [-1, 4]),
            **TRUNCATED,
        },
    ),
    "score": (
        {"text": TEXT, "translation": TEXT},
        {"score": ("float32", [-1]), **TRUNCATED},
    ),
    "lengths": (
        {"text": TEXT},
        {"length": ("int32", [-1]), "limit": ("int32", [-1]), **TRUNCATED},
    ),
}


def test_the_signatures_are_of_plain_tensors(meta_graph):
    signatures = {
        name: (described(signature.inputs), described(signature.outputs))
        for name, signature in meta_graph.signature_def.items()
        if not name.startswith("__saved_model")
    }
    assert signatures == SIGNATURES


def described(infos):
    return {
        name: (
            tf.as_dtype(info.dtype).name,
            [axis.size for axis in info.tensor_shape.dim],
        )
        for name, info in infos.items()
    }


def test_a_stock_server_has_every_operation(meta_graph):
    graph = meta_graph.graph_def
    nodes = [*graph.node]
    for function in graph.library.function:
        nodes.extend(function.node_def)
    functions = {f.signature.name for f in graph.library.function}
    operations = {node.op for node in nodes} - functions
    assert len(operations) > 20
    others = {op for op in operations if not hasattr(tf.raw_ops, op)}
    assert others <= TEXT_OPERATIONS
    assert not [op for op in operations if op.startswith(FOREIGN)]


def test_the_check_finds_no_operation_that_a_server_lacks(exported):
    assert foreign_operations(exported) == []


def test_nothing_is_compiled_by_xla(meta_graph):
    library = meta_graph.graph_def.library
    for attributes in [f.attr for f in library.function] + [
        node.attr for f in library.function for node in f.node_def
    ]:
        assert not attributes["_XlaMustCompile"].b


def test_no_asset_is_needed(exported, meta_graph):
    assert len(meta_graph.asset_file_def) == 0
    assert not any((exported / "assets").glob("*"))


def test_the_next_free_number_is_taken(number, tmp_path):
    assert number()[1] is None
    assert number()[1] is None
    assert below(tmp_path / "e") == ["1", "2"]
    assert number("--version=10")[1] is None
    assert number()[1] is None
    assert below(tmp_path / "e") == ["1", "10", "11", "2"]
    assert number("--version=7")[1] is None
    assert below(tmp_path / "e") == ["1", "10", "11", "2", "7"]


def test_names_that_are_no_numbers_do_not_count(number, tmp_path):
    for name in ("99.old", "v4", ".12", "models.config", "-3", "\u0663"):
        (tmp_path / "e" / name).mkdir(parents=True)
    assert number()[1] is None
    assert (tmp_path / "e" / "1").is_dir()


def test_a_version_is_never_overwritten(export, tmp_path):
    (tmp_path / "e" / "3").mkdir(parents=True)
    (tmp_path / "e" / "3" / "saved_model.pb").write_bytes(b"old")
    printed, message = export("--version=3")
    assert printed == ""
    assert str(tmp_path / "e" / "3") in message
    assert below(tmp_path / "e") == ["3"]
    assert (tmp_path / "e/3/saved_model.pb").read_bytes() == b"old"


def test_a_version_of_another_spelling_is_not_overwritten(number, tmp_path):
    # The server reads 003 as 3.
    (tmp_path / "e" / "003").mkdir(parents=True)
    assert number("--version=3")[1] is not None
    assert below(tmp_path / "e") == ["003"]


@pytest.mark.parametrize("version", [0, -1])
def test_a_version_below_1_is_refused(number, tmp_path, version):
    message = number(f"--version={version}")[1]
    assert str(version) in message
    assert not (tmp_path / "e").exists()


def test_an_export_directory_that_is_a_file_is_named(export, tmp_path):
    (tmp_path / "e").write_bytes(b"old")
    message = export()[1]
    assert str(tmp_path / "e") in message
    assert (tmp_path / "e").read_bytes() == b"old"


def test_a_failure_leaves_nothing_half_written(export, other_process, tmp_path):
    (tmp_path / "e" / "1").mkdir(parents=True)
    for function in (
        saved_model_runs.run_interrupted,
        saved_model_runs.run_failing_the_check,
    ):
        message = export(function=function)[1]
        assert message is not None
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
    assert "\n" not in message
    assert below(small_disk) == ["1"]


@pytest.mark.parametrize(
    "broken",
    ["config.json", "vocabulary.model", "model.weights.h5"],
)
def test_a_directory_that_is_not_whole_is_named(
    other_process, model_path, tmp_path, broken
):
    shutil.copytree(model_path, tmp_path / "m")
    (tmp_path / "m" / broken).unlink()
    _, message = other_process(
        saved_model_runs.run,
        f"--model_dir={tmp_path / 'm'}",
        f"--export_dir={tmp_path / 'e'}",
    )
    assert str(tmp_path / "m" / broken) in message
    assert not (tmp_path / "e").exists()


def test_an_error_of_the_command_ends_it_with_one_line_and_2(tmp_path):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "export.saved_model"),
            f"--model_dir={tmp_path / 'none'}",
            f"--export_dir={tmp_path / 'e'}",
        ],
        cwd=tiny.ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    # TensorFlow's own notes may come first.
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert str(tmp_path / "none") in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "e").exists()
