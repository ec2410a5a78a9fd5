"""A LiteRT file computes what the model does; the command."""

import json
import sys

import numpy as np
import pytest
import sacrebleu
import sentencepiece

import keras_transformer as kt
from export.loading import load_translator
from export.model_directory import ModelDirectory
from export.tokenizers.python_tokenizers import load_python_tokenizers
from export.translators import ids_backend
from export.translators.batches import pad_ids
from export.translators.model_backend import model_for_tokenizer
from keras_transformer.config import BEGIN_ID, END_ID, FORBIDDEN_IDS
from tests import made_up_text
from tests.export import commands, many_languages, tiny
from tests.export.parsing import tiny_parser

litert = pytest.importorskip("ai_edge_litert.interpreter")
TEXTS = made_up_text.sentences()[:20]
SOURCE_TOKENS = 24
DEMO = tiny.ROOT / "runs" / "demo"


def export(model, folder, *arguments):
    """Runs the command; returns its exit code and standard error."""
    code, _, err = commands.run(
        *("export.litert", None, [], f"--model_dir={model}"),
        *(f"--output_dir={folder}", *arguments),
    )
    return code, "\n".join(err)


@pytest.fixture(name="model_dir", scope="module")
def fixture_model_dir(tmp_path_factory):
    """A model that generates the end id often."""
    path = tmp_path_factory.mktemp("model")
    model = tiny.model(5, output_bias=True, max_extra_tokens=12)
    bias = model.output_embedding.bias
    bias.assign(np.where(np.arange(200) == END_ID, 4.0, bias))
    ModelDirectory(path).write(
        model, made_up_text.vocabulary(), {"dataset": "made up"}
    )
    return path


@pytest.fixture(name="folder", scope="module")
def fixture_folder(model_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("litert") / "phone"
    flag = f"--max_source_tokens={SOURCE_TOKENS}"
    assert export(model_dir, folder, flag)[0] == 0
    return folder


class Application:
    """What an application does with a folder: no module of ours."""

    def __init__(self, folder):
        path = folder / "translate.tflite"
        self.interpreter = litert.Interpreter(str(path), num_threads=1)
        self.runner = self.interpreter.get_signature_runner
        text = (folder / "litert.json").read_text("utf-8")
        self.description = json.loads(text)
        names = "source_vocabulary.model", "vocabulary.model"
        paths = [folder / name for name in names if (folder / name).exists()]
        self.source, self.target = (
            sentencepiece.SentencePieceProcessor(model_file=str(each))
            for each in (paths[0], paths[-1])
        )

    def ids(self, text):
        return [*self.source.encode(text), self.description["end_id"]]

    def pad(self, ids):
        return pad_ids([ids], self.description["max_source_tokens"])

    def translate(self, ids):
        result = self.runner("translate")(tokens=self.pad(ids))
        return result["tokens"][0], result["scores"][0]

    def stream(self, ids):
        """Yields tokens and log-probabilities up to the longest output."""
        state = self.runner("prefill")(tokens=self.pad(ids))
        end = self.description["end_id"]
        token = self.description["begin_id"]
        limit = len(ids) - 1 + self.description["max_extra_tokens"]
        for index in range(min(limit, self.description["max_output_tokens"])):
            inputs = {
                "token": np.array([[token]], np.int32),
                "index": np.array([index], np.int32),
            }
            state |= self.runner("step")(**inputs, **state)
            token = state.pop("token").item()
            yield token, state.pop("log_prob").item()
            if token == end:
                break


def assert_same_hypotheses(application, model, rows):
    config = kt.BeamSearchConfig.from_config(
        model.config, num_given_tokens=model.num_given_tokens, min_length=1
    )
    expected = kt.translate_ids(model, pad_ids(rows), config=config)
    width = expected.tokens.shape[2]
    for ids, *best in zip(rows, expected.tokens, expected.scores):
        tokens, scores = application.translate(ids)
        np.testing.assert_array_equal(tokens[:, :width], best[0])
        assert not tokens[:, width:].any()
        np.testing.assert_allclose(scores, best[1], atol=1e-4, rtol=1e-5)


def assert_greedy(application, model, rows):
    """Compares each step with the logits of the model, by NumPy."""
    streams = [[*zip(*application.stream(ids))] for ids in rows]
    given = [(BEGIN_ID, *tokens[:-1]) for tokens, _ in streams]
    logits = model({"source": pad_ids(rows), "target": pad_ids(given)})
    logits = np.asarray(logits, "float64")
    logs = logits - np.logaddexp.reduce(logits, axis=2, keepdims=True)
    for (tokens, log_probs), row in zip(streams, logs):
        steps = np.arange(len(tokens))
        np.testing.assert_allclose(log_probs, row[steps, tokens], atol=1e-4)
        row[:, [*FORBIDDEN_IDS]] = -np.inf
        row[0, END_ID] = -np.inf
        np.testing.assert_array_equal(tokens, row[steps].argmax(axis=1))


def test_hypotheses_and_steps_are_those_of_the_model(folder, model_dir):
    application = Application(folder)
    model = ModelDirectory(model_dir).load_model()
    rows = [application.ids(text) for text in TEXTS]
    assert len({*map(len, rows)}) > 3
    assert_same_hypotheses(application, model, [*rows, [END_ID]])
    assert_greedy(application, model, rows)
    lengths = [len([*application.stream(ids)]) for ids in rows]
    assert min(lengths) < 7 and max(lengths) > 15


def test_all_shapes_are_fixed(folder):
    """And no tensor is boolean: LiteRT.js has neither."""
    application = Application(folder)
    signatures = application.interpreter.get_signature_list()
    assert {*signatures} == {"translate", "prefill", "step"}
    for name, sides in signatures.items():
        runner = application.runner(name)
        details = runner.get_input_details() | runner.get_output_details()
        assert {*details} == {*sides["inputs"], *sides["outputs"]}
        for each in details.values():
            assert (each["shape_signature"] > 0).all()
            assert each["dtype"] in (np.int32, np.float32)
    assert application.description["max_output_tokens"] == SOURCE_TOKENS + 12


@pytest.mark.slow
def test_a_wrong_file_is_not_written(tmp_path, model_dir, monkeypatch):
    compile_for_model = ids_backend.compile_for_model

    def compile_changed(model, function):
        for weight in model.weights:
            weight.assign(1.1 * weight)
        return compile_for_model(model, function)

    monkeypatch.setattr(ids_backend, "compile_for_model", compile_changed)
    done = export(model_dir, tmp_path / "new", "--max_source_tokens=8")
    assert done[0] == 2 and "translate" in done[1]
    assert [*tmp_path.iterdir()] == []


def test_refusals(tmp_path, model_dir, monkeypatch):
    tiny.write(tmp_path / "window", attention_window=3)
    tiny_parser.write(tmp_path / "parser")
    before = sorted(tmp_path.rglob("*"))

    def assert_refused(name, *arguments):
        code, err = export(*arguments)
        assert code == 2 and name in err
        assert sorted(tmp_path.rglob("*")) == before

    new = tmp_path / "new"
    assert_refused("attention_window=3", tmp_path / "window", new)
    assert_refused("parser", tmp_path / "parser", new)
    assert_refused(str(tmp_path), model_dir, tmp_path)
    penalty = "--repetition_penalty=1.5"
    assert_refused("repetition_penalty=1.5", model_dir, new, penalty)
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    assert_refused("ai_edge_litert", model_dir, new)


VARIANTS = {
    "learned positions": {
        "positions": "learned",
        "max_positions": 20,
        "max_extra_tokens": 30,
        "norm": "post",
        "activation": "gelu",
        "num_decoder_layers": 2,
    },
    "search": {
        "beam_size": 1,
        "share_embeddings": "all",
        "max_extra_tokens": 40,
        "no_repeat_ngram_size": 3,
        "retry_ngram_size": 2,
        "stop_criterion": "heuristic",
        "attention_bias": False,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_other_models(tmp_path, name):
    tiny.write(tmp_path / "m", **VARIANTS[name])
    assert export(tmp_path / "m", tmp_path / "phone") == (0, "")
    application = Application(tmp_path / "phone")
    model = ModelDirectory(tmp_path / "m").load_model()
    rows = [application.ids(text) for text in TEXTS]
    rows = [row for row in rows if len(row) < 15]
    assert len(rows) > 5
    assert_same_hypotheses(application, model, rows)
    assert_greedy(application, model, rows)


@pytest.mark.slow
@pytest.mark.parametrize("kind, num_tags", [("single", 1), ("pair", 2)])
def test_tags_of_languages_are_ids(tmp_path, kind, num_tags):
    """The target's comes first, as in the ids of a tokenizer."""
    path = many_languages.write_model(tmp_path / "m", kind)
    flags = "--max_source_tokens=30", "--nocheck"
    assert export(path, tmp_path / "phone", *flags) == (0, "")
    application = Application(tmp_path / "phone")
    directory = ModelDirectory(path)
    tokenizer = load_python_tokenizers(directory.read_vocabulary())
    model = model_for_tokenizer(directory.load_model(), tokenizer)
    assert application.description["language_tags"] == num_tags
    target, source, _ = many_languages.CODES
    tags = f">>{source}<<>>{target}<<" if num_tags == 2 else f">>{target}<<"
    tag_ids = application.description["languages"]
    first = [tag_ids[code] for code in (target, source)[:num_tags]]
    rows = [[*first, *application.ids(text)] for text in TEXTS]
    assert rows == [tokenizer.source.ids(tags + text) for text in TEXTS]
    assert_same_hypotheses(application, model, rows)
    assert_greedy(application, model, rows)


@pytest.mark.slow
@pytest.mark.skipif(not DEMO.exists(), reason="bin/demo has not run")
@pytest.mark.parametrize(
    "quantization, share, difference",
    [("float32", 0.999, 1e-4), ("float16", 0.98, 0.02), ("int8", 0.85, 1.0)],
)
def test_the_demo(tmp_path, quantization, share, difference):
    """On 1,000 sentences; also the scores of equal translations."""
    text = (DEMO / "data" / "test.json").read_text("utf-8")
    test_set = json.loads(text)
    sources = test_set["sources"][:1000]
    references = [each[:1] for each in test_set["references"][:1000]]
    expected = load_translator(DEMO).translate(sources)
    flag = f"--quantization={quantization}"
    assert export(DEMO, tmp_path / "phone", flag) == (0, "")
    application = Application(tmp_path / "phone")
    tokenizer = load_python_tokenizers((DEMO / "vocabulary.model").read_bytes())
    results = [
        application.translate(ids) for ids in tokenizer.source.encode(sources)
    ]
    texts = [tokenizer.target.text(tokens[0].tolist()) for tokens, _ in results]
    equal = np.array([text == each.text for text, each in zip(texts, expected)])
    assert equal.mean() >= share
    differences = [
        abs(scores[0] - each.score)
        for (_, scores), each in zip(results, expected)
    ]
    assert np.array(differences)[equal].max() <= difference
    score, expected_score = (
        sacrebleu.corpus_bleu(each, [*zip(*references)]).score
        for each in (texts, [each.text for each in expected])
    )
    assert abs(score - expected_score) < 1.0
