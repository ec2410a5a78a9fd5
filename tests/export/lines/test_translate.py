"""export.translate, export.score and export.sample on lines."""

import os
import select
import tempfile

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from export.translators import graph_backend
from export.translators.batches import BATCH_TOKENS
from export.translators.translation import Translation
from tests import made_up_text, processes
from tests.export import commands, tiny

LONG = "ba bi " * 500
TEXTS = [*made_up_text.sentences()[:12], "", LONG, "  ", "b\u00e0 ka."]


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    """An export that translates text to itself."""

    def translate(text):
        zeros = tf.zeros(tf.shape(text))
        return {"translation": text, "score": zeros, "truncated": zeros > 0}

    def n_best(text):
        one = translate(text)
        return {
            "translations": tf.tile(text[:, None], [1, 4]),
            "scores": tf.tile(one["score"][:, None], [1, 4]),
            "truncated": one["truncated"],
        }

    def lengths(text):
        length = tf.strings.length(text)
        limit = tf.fill(tf.shape(text), 16)
        truncated = length > limit
        return {"length": length, "limit": limit, "truncated": truncated}

    module, path = tf.Module(), tmp_path_factory.mktemp("echo")
    text = tf.TensorSpec([None], tf.string, "text")
    module.functions = {
        name: tf.function(function, input_signature=[text], autograph=False)
        for name, function in (
            ("serving_default", translate),
            ("n_best", n_best),
            ("lengths", lengths),
        )
    }
    tf.saved_model.save(module, str(path), module.functions)
    return path


def run(model, texts, *flags):
    return commands.run("export.translate", model, texts, *flags)


def check_scores(lines, expected):
    np.testing.assert_allclose(
        [float(line) for line in lines], [t.score for t in expected], atol=1e-4
    )


def check_aligned(lines, expected):
    """Checks lines of --scores and --alignments; returns texts and links."""
    scores, texts, links = zip(*[line.split("\t") for line in lines])
    check_scores(scores, expected)
    assert list(texts) == [t.text for t in expected]
    assert list(links) == [
        " ".join(f"{one}-{other}" for one, other in t.alignment)
        for t in expected
    ]
    return texts, links


def check_n_best(lines, expected):
    numbers, texts, scores = zip(*[line.split(" ||| ") for line in lines])
    flat = [(str(n), t) for n, row in enumerate(expected) for t in row]
    assert [*zip(numbers, texts)] == [(n, each.text) for n, each in flat]
    check_scores(scores, [each for _, each in flat])


def test_an_export_translates_in_order_and_needs_no_keras(
    exported, truncating_translator, tmp_path
):
    (tmp_path / "keras.py").write_text("raise AssertionError\n")
    code, lines, err = commands.run_alone(
        *("export.translate", exported, TEXTS, "--scores", "--alignments"),
        variables={"PYTHONPATH": f"{tmp_path}:{tiny.ROOT}"},
    )
    assert code == 0, err
    texts, links = check_aligned(lines, truncating_translator.align(TEXTS))
    assert texts[12] == texts[14] == links[12] == ""
    assert links[0]
    assert len(err) == 1
    assert "1 of the lines (14)" in err[0]


def test_a_model_directory_gives_the_same(model_path, translator):
    flags = ["--scores", "--alignments", "--batch_tokens=64"]
    code, lines, err = run(model_path, TEXTS, *flags)
    assert code == 0, err
    assert "1 of the lines (14)" in err[-1]
    # Its longest source is not the one that the export truncates to.
    lines = [line for line, text in zip(lines, TEXTS) if text != LONG]
    texts = [text for text in TEXTS if text != LONG]
    check_aligned(lines, translator.align(texts))


def test_a_model_directory_takes_a_search(model_path, translator, monkeypatch):
    given = {}

    def record(model, tokenizer, **search):
        given.update(search)
        return translator.backend

    monkeypatch.setattr(graph_backend, "GraphBackend", record)
    search = {
        "beam_size": 6,
        "alpha": 1.0,
        "max_extra_tokens": 9,
        "min_length": 2,
        "stop_criterion": "k_finished",
    }
    flags = [f"--{name}={value}" for name, value in search.items()]
    for flag, others in (
        ("--batch_tokens=9", {"batch_tokens": 9}),
        ("--compiled", {"batch_tokens": BATCH_TOKENS, "compiled": True}),
    ):
        assert run(model_path, [], *flags, flag)[0] == 0
        assert given == search | others


def test_refusals_are_one_line_and_2(echo, tmp_path):
    for model, flags in (
        (echo, ["--beam_size=2"]),
        (echo, ["--alpha=1", "--max_extra_tokens=3"]),
        (echo, ["--min_length=0"]),
        (echo, ["--compiled"]),
        (echo, ["--prefixes=/dev/null"]),
        (echo, ["--compiled", "--batch_tokens=9"]),
        (echo, ["--n_best=5"]),
        (echo, ["--alignments", "--n_best=2"]),
        (echo, ["--input=/nowhere/at/all"]),
        (echo, ["--output=/nowhere/at/all"]),
        (tmp_path / "none", []),
        (tmp_path, []),
    ):
        code, lines, err = run(model, TEXTS[:2], *flags)
        assert (code, lines) == (2, []), flags
        assert err[-1].startswith("Error: ")
        assert all(flag.partition("=")[0] in err[-1] for flag in flags)
        assert flags or str(model) in err[-1]


def test_a_bad_byte_is_named_by_its_line_and_nothing_gives_nothing(echo):
    assert run(echo, []) == (0, [], [])
    code, lines, (line,) = run(echo, b"ba.\n" * 200 + b"ka \xff.\nba.\n")
    assert code == 2
    # The lines before it are answered.
    assert lines == ["ba."] * 128
    assert line.startswith("Error: Line 201 of the input is not UTF-8")


def test_lines_are_answered_while_the_input_is_open_and_a_reader_may_leave(
    echo,
):
    (answers, output), (source, sink) = os.pipe(), os.pipe()
    # As another process may leave what it shares with the command.
    for descriptor in (source, output):
        os.set_blocking(descriptor, False)
    with (
        os.fdopen(source, "rb") as stdin,
        os.fdopen(output, "wb") as stdout,
        tempfile.TemporaryFile("w+") as err,
    ):
        streams = {"stdin": stdin, "stdout": stdout, "stderr": err}
        process = commands.start("export.translate", echo, **streams)
        stdout.close()
        for block, expected in (
            (b"ba bi ka\n", b"ba bi ka\n"),
            (b"ka\nbi", b"ka\n"),
            (b" ba\n", b"bi ba\n"),
        ):
            os.write(sink, block)
            assert select.select([answers], [], [], 120)[0], "no answer"
            assert os.read(answers, 4096) == expected
        os.close(answers)
        os.write(sink, b"ba\n")
        assert process.wait(60) == 141
        os.close(sink)
        err.seek(0)
        assert processes.Result(141, "", err.read()).err == ""


def test_scores_of_pairs_in_order(exported, translator, echo, tmp_path):
    sources = [*TEXTS[:9], "", "ba ka."]
    translations = [each.text for each in translator.translate(sources)]
    translations[9:] = ["ka", ""]
    path = tmp_path / "translations"

    def score(model, content):
        path.write_bytes(content)
        flag = f"--translations={path}"
        return commands.run("export.score", model, sources, flag)

    content = "".join(f"{text}\n" for text in translations).encode()
    code, lines, err = score(exported, content)
    assert (code, err) == (0, [])
    expected = translator.score(sources, translations)
    np.testing.assert_allclose([*map(float, lines)], expected, atol=1e-4)
    assert len(set(lines)) > 8
    # Of many characters, but one unknown token.
    sources[3] = 50_000 * "\u4e00"
    sources[4], translations[6] = (64 * "ba ka " for _ in range(2))
    content = "".join(f"{text}\n" for text in translations).encode()
    code, lines, err = score(exported, content)
    assert (code, len(lines)) == (0, len(sources))
    assert "3 of the lines (4, 5, 7)" in err[0]
    code, lines, err = score(echo, b"ba\n" * 3)
    assert (code, lines) == (2, [])
    assert "--input has a line 4" in err[0]


SAMPLED = ["ba ka.", "", "do ri ba bi ka mu.", "mu.", "ri ri ba ka do bi."]


def test_a_sentence_has_its_own_samples_in_any_batch(model_path, translator):
    config, seeds = kt.SamplingConfig(samples=3), [40, 41, 42, 43, 44]
    together = translator.sample(SAMPLED, seeds, config)
    assert [len(drawn) for drawn in together] == [3, 1, 3, 3, 3]
    assert together[1] == [Translation("", 0.0)]
    for text, seed, expected in [*zip(SAMPLED, seeds, together)][::2]:
        (alone,) = translator.sample([text], [seed], config)
        assert [each.text for each in alone] == [each.text for each in expected]
        np.testing.assert_allclose(
            [each.score for each in alone],
            [each.score for each in expected],
            atol=1e-4,
        )
    other = translator.sample(SAMPLED, [seed + 1 for seed in seeds], config)
    assert other != together
    code, lines, err = commands.run(
        "export.sample", model_path, SAMPLED, "--samples=3", "--seed=40"
    )
    assert (code, err) == (0, [])
    check_n_best(lines, together)
