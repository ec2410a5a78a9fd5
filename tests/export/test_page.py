"""The page without a server: its tokenizer and search in Node, and Chromium."""

import functools
import http.server
import random
import shutil
import subprocess
import threading

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from export.common.errors import InputError
from export.model_directory import ModelDirectory
from export.page.node import check_files, run_javascript
from export.page.page_files import make_files
from export.page.vocabulary import describe_vocabularies
from export.page.weights import round_weights
from export.tokenizers import sentencepiece_model
from export.tokenizers.letter_case import CASE_MARKS
from export.tokenizers.python_tokenizers import (
    join_vocabularies,
    load_python_tokenizers,
)
from export.translators.batches import pad_ids
from keras_transformer.layers import base, embedding
from tests import made_up_text
from tests.export import commands, many_languages, odd_vocabularies, tiny
from trainers.data.vocabulary import train_vocabulary

pytest.importorskip("selenium", reason="selenium is not installed")

from selenium.webdriver import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

from tests.export.attention_views import chromium  # noqa: E402

SENTENCES = made_up_text.sentences()[:12]
REFUSED = ("suffix", "lossless_suffix", "char")
needs_node = pytest.mark.skipif(
    not shutil.which("node"), reason="node is not installed"
)
MODELS = {
    "pre-norm": {"num_layers": 2},
    "post-norm": {"norm": "post", "share_embeddings": "all"},
    "gelu": {
        "activation": "gelu",
        "output_bias": True,
        "sinusoid_rates": "marian",
        "share_embeddings": "target-softmax",
    },
    "learned": {
        "positions": "learned",
        "max_positions": 12,
        "activation": "silu",
        "attention_bias": False,
        "num_decoder_layers": 2,
    },
    "two vocabularies": {
        "source_vocabulary_size": 230,
        "sinusoid_rates": "fairseq",
        "d_k": 6,
        "d_v": 10,
    },
    "odd widths": {"d_model": 50, "d_ff": 70, "norm": "post"},
    "heuristic": {"stop_criterion": "heuristic", "repetition_penalty": 1.5},
    "k_finished": {
        "stop_criterion": "k_finished",
        "no_repeat_ngram_size": 2,
        "length_penalty": "power",
        "alpha": -0.5,
    },
}


def odd_texts(count=400):
    """Texts of all of Unicode, and of what SentencePiece treats specially."""
    generator = random.Random(1)
    pools = [
        *("ab ck d Éàé .,!?", "ABCDE xyz 12", "你好世界。，「１」"),
        *(
            "ÀÉß ŉ İ ﬁ ﬀ ①Ａ\u3000\u00a0\u2028\t\n",
            "\u2581 \ufdd0\ufdd1 a<b>@%$",
        ),
    ]
    texts = ["", " ", "</s>", "THE 2 STATIONS, %d!", "Ba Ki Du 18", "\ufeffba"]
    texts += [">>fra<< ba ki", " >>xxx<<ba", ">>fra<<", "ba >>fra<<"]
    texts += [text.upper() for text in SENTENCES]
    texts += [text.title() for text in SENTENCES]
    for _ in range(count):
        letters = [generator.choice(generator.choice(pools)) for _ in range(20)]
        letters += [
            chr(generator.randrange(first, last))
            for first, last in ((1, 0x250), (0x250, 0xD800), (0xE000, 0x110000))
        ]
        generator.shuffle(letters)
        texts.append("".join(letters[: generator.randint(1, 23)]))
    return texts


def compare_tokenizer(vocabulary, side=0):
    reference = load_python_tokenizers(vocabulary)[side]
    texts = odd_texts()
    ids = [reference.ids(text) for text in texts]
    # Unknown ids are never generated.
    rows = [[each for each in row if each != 1] for row in ids]
    found = run_javascript(
        """({ vocabulary, texts, rows }) => {
          const tokenizer = createTokenizer(vocabulary);
          return [texts.map(tokenizer.encode), rows.map(tokenizer.decode)];
        }""",
        {
            "vocabulary": describe_vocabularies(vocabulary)[side],
            "texts": texts,
            "rows": rows,
        },
        files={},
    )
    assert found[0] == ids
    assert found[1] == [reference.text(row) for row in rows]


@needs_node
@pytest.mark.parametrize(
    "name", [each for each in odd_vocabularies.OPTIONS if each not in REFUSED]
)
def test_texts_have_the_ids_of_sentencepiece(name):
    compare_tokenizer(odd_vocabularies.proto(name))


@needs_node
def test_case_marks():
    lines = made_up_text.sentences()
    compare_tokenizer(train_vocabulary(lines, 210, tags=CASE_MARKS))


@needs_node
@pytest.mark.parametrize("rules", ["", "opus-mt"])
@pytest.mark.parametrize("side", [0, 1])
def test_vocabularies_of_two_sides(rules, side):
    compare_tokenizer(odd_vocabularies.pair(rules), side)


@pytest.mark.parametrize("name", REFUSED)
def test_other_vocabularies_are_refused(name):
    with pytest.raises(InputError):
        describe_vocabularies(odd_vocabularies.proto(name))
    model = sentencepiece_model.ModelProto.FromString(made_up_text.vocabulary())
    model.pieces[-1].type = model.pieces[-1].UNUSED
    with pytest.raises(InputError, match="unused"):
        describe_vocabularies(model.SerializeToString())


@pytest.fixture
def rounded_inputs(monkeypatch):
    """Rounds the inputs of all products, as the page does."""
    multiply = base.linear

    def linear(inputs, *others):
        largest = ops.max(ops.abs(inputs), axis=-1, keepdims=True)
        # Sums of fewer than 8,192 of such products fit into 32 bits.
        assert inputs.shape[-1] < 2048
        step = ops.maximum(largest, 1e-30) / 32_767
        return multiply(ops.round(inputs / step) * step, *others)

    for module in base, embedding:
        monkeypatch.setattr(module, "linear", linear)


def search(model, sources, beams):
    """Returns the tokens and scores of the model's own search."""
    config = kt.BeamSearchConfig.from_config(
        model.config.with_search(beam_size=beams), min_length=1
    )
    result = kt.translate_ids(model, pad_ids(sources), config=config)
    return np.asarray(result.tokens), np.asarray(result.scores)


@needs_node
@pytest.mark.parametrize("name", MODELS)
def test_the_search_finds_the_same(name, rounded_inputs):
    model = tiny.model(**MODELS[name])
    size = model.config.encoder_vocabulary_size
    vocabulary = made_up_text.vocabulary()
    if size != 200:
        source = made_up_text.vocabulary(size, seed=2)
        vocabulary = join_vocabularies(source, vocabulary)
    round_weights(model)
    generator = np.random.default_rng(0)
    sources = [
        [*generator.integers(4, size, length).tolist(), 3]
        for length in (*range(9), 3, 5, 7)
    ]
    found = run_javascript(
        """({ sources, beams }) => {
          const parts = modelParts.map(part => Buffer.from(part, "base64"));
          const translateIds = createEngine(model, Buffer.concat(parts));
          return beams.map(count =>
            sources.map(ids => translateIds(ids, count)));
        }""",
        {"sources": sources, "beams": [1, 4]},
        make_files(model, vocabulary),
    )
    for beams, hypotheses in zip([1, 4], found):
        tokens, scores = search(model, sources, beams)
        for row, row_scores, best in zip(tokens, scores, hypotheses):
            assert best[0]["tokens"] == row[0][row[0] > 0].tolist()
            # Fewer if fewer are possible.
            expected = row_scores[row_scores > -1e8]
            assert len(best) == len(expected)
            # A rounded input may fall to the other side of a step.
            np.testing.assert_allclose(
                [each["score"] for each in best], expected, atol=0.02
            )


@needs_node
def test_texts_are_translated_sentence_by_sentence(rounded_inputs):
    # Sources have at most 12 ids.
    model = tiny.model(seed=5, positions="learned", max_positions=12)
    round_weights(model)
    vocabulary = made_up_text.vocabulary()
    tokenizer = load_python_tokenizers(vocabulary).target

    def translations(text, beams=4):
        tokens, _ = search(model, [tokenizer.ids(text)], beams)
        return [
            *dict.fromkeys(tokenizer.text(row.tolist()) for row in tokens[0])
        ]

    first, second = SENTENCES[:2]
    long = "ba " * 20
    tokens, _ = search(model, [[*tokenizer.ids(long)[:11], 3]], 1)
    cases = [
        (first, 4, translations(first)),
        (first, 1, translations(first, 1)),
        ("Mr. Ba fi", 4, translations("Mr. Ba fi")),
        ("  ", 4, [""]),
        ("\u200b", 4, [""]),
        (
            f" {first}\n\n{second}  Ba!",
            4,
            [
                f" {translations(first)[0]}\n\n{translations(second)[0]}  "
                f"{translations('Ba!')[0]}"
            ],
        ),
        (long, 1, [tokenizer.text(tokens[0, 0].tolist())]),
    ]
    found = run_javascript(
        """cases => {
          const translate = createTranslator(model, modelParts);
          return cases.map(([text, beams]) => translate(text, beams));
        }""",
        cases,
        make_files(model, vocabulary),
    )
    assert [each["translations"] for each in found] == [
        each for _, _, each in cases
    ]
    assert [each["isTruncated"] for each in found] == [False] * 6 + [True]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the command writes for a tiny model."""
    path = tmp_path_factory.mktemp("page")
    run = {"source_language": "en_US", "target_language": "fr"}
    model, vocabulary = tiny.model(seed=5), made_up_text.vocabulary()
    ModelDirectory(path / "model").write(model, vocabulary, run)
    output, error = write_page(path / "model", path / "page")
    assert error is None
    assert str(path / "page" / "index.html") in output
    return path / "page"


def write_page(model_path, path):
    """Returns the output and the error of the command."""
    flags = f"--model_dir={model_path}", f"--output_dir={path}"
    return commands.output_and_error("export.page", *flags)


def translate_best(text):
    """Returns the page's translation, from Python."""
    model = tiny.model(seed=5)
    round_weights(model)
    tokenizer = load_python_tokenizers(made_up_text.vocabulary()).target
    tokens, _ = search(model, [tokenizer.ids(text)], 4)
    return tokenizer.text(tokens[0, 0].tolist())


def test_the_command_refuses_what_the_page_lacks(tmp_path, folder):
    _, error = write_page(folder.parent / "model", folder)
    assert "never overwritten" in error
    many_languages.write_model(tmp_path / "languages", "pair")
    tiny.write(tmp_path / "window", attention_window=2)
    for name in "languages", "window":
        _, error = write_page(tmp_path / name, tmp_path / "out")
        assert "export.serve" in error
    assert not (tmp_path / "out").exists()


def test_equal_models_have_equal_files_and_others_other_names():
    vocabulary = made_up_text.vocabulary()
    first, same, other = (
        make_files(tiny.model(seed=seed), vocabulary) for seed in (1, 1, 2)
    )
    assert first == same
    assert first["sw.js"] != other["sw.js"]
    # The second has the weights.
    (_, weights), (_, other_weights) = (
        [name for name in files if name.startswith("model-")]
        for files in (first, other)
    )
    assert weights != other_weights


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    if not chromium.is_installed():
        pytest.skip("chromium and chromedriver are not installed")
    found = chromium.start(tmp_path_factory.mktemp("profile"))
    yield found
    found.quit()


def text_of(driver, name):
    return driver.find_element("id", name).get_property("textContent")


def wait_for(driver, name, text):
    WebDriverWait(driver, 60).until(lambda _: text_of(driver, name) == text)


def choices_of(driver):
    return driver.find_elements("css selector", "#others button")


def test_typing_in_a_page_from_a_file(driver, folder, rounded_inputs):
    chromium.requested_urls(driver)
    driver.get((folder / "index.html").as_uri())
    wait_for(driver, "state", "")
    assert text_of(driver, "title") == "Translator: American English to French"
    box = driver.find_element("id", "source")
    assert driver.switch_to.active_element == box
    first, second = SENTENCES[:2]
    box.send_keys(first)
    wait_for(driver, "best", translate_best(first))
    WebDriverWait(driver, 60).until(lambda _: len(choices_of(driver)) > 1)
    choice = choices_of(driver)[1]
    choice.click()
    assert choice.text != translate_best(first)
    assert text_of(driver, "best") == choice.text
    assert choice.get_attribute("aria-pressed") == "true"
    box.send_keys(f"\n{second}")
    both = f"{translate_best(first)}\n{translate_best(second)}"
    wait_for(driver, "best", both)
    assert choices_of(driver) == []
    box.send_keys(Keys.CONTROL, "a", Keys.BACKSPACE)
    wait_for(driver, "best", "")
    driver.execute_script(
        """const box = document.getElementById("source");
        box.value = "ba ".repeat(1600);
        box.dispatchEvent(new Event("input"));"""
    )
    WebDriverWait(driver, 60).until(lambda _: text_of(driver, "state") != "")
    for width in 360, 1200:
        driver.set_window_size(width, 800)
        scroll = "return document.documentElement.scrollWidth"
        assert driver.execute_script(scroll) <= driver.execute_script(
            "return innerWidth"
        )
    assert driver.get_log("browser") == []
    addresses = chromium.requested_urls(driver)
    assert any("/model-" in each for each in addresses)
    assert {each.partition(":")[0] for each in addresses} <= {"file", "blob"}


def test_an_installed_page_works_offline(driver, folder, rounded_inputs):
    handler = functools.partial(QuietHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("localhost", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://localhost:{server.server_address[1]}/"
        driver.get(url)
        wait_for(driver, "state", "")
        kept = driver.execute_async_script(
            """const done = arguments[0];
            navigator.serviceWorker.ready
              .then(() => caches.keys())
              .then(([name]) => caches.open(name))
              .then(cache => cache.keys())
              .then(files => done(files.map(each => each.url)));"""
        )
        names = {each.name for each in folder.iterdir()} - {"sw.js"}
        assert {*kept} == {url, *(url + name for name in names)}
        server.shutdown()
    driver.get(url)
    wait_for(driver, "state", "")
    driver.find_element("id", "source").send_keys(SENTENCES[0])
    wait_for(driver, "best", translate_best(SENTENCES[0]))
    manifest = driver.execute_async_script(
        """fetch(document.querySelector("link[rel=manifest]").href)
          .then(response => response.json()).then(arguments[0]);"""
    )
    assert manifest["icons"][0]["src"] in names
    # Of the network's end.
    driver.get_log("browser")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """A web server that logs nothing."""

    def log_message(self, *arguments):
        pass


def test_accessibility(driver, folder, tmp_path):
    """The package axe-core finds nothing."""
    installed = shutil.which("npm") and subprocess.run(
        [
            "npm",
            "install",
            "--ignore-scripts",
            "--fetch-retries=0",
            "--prefix",
            tmp_path,
            "axe-core",
        ],
        capture_output=True,
    )
    if not installed or installed.returncode:
        pytest.skip("npm cannot install axe-core")
    script = tmp_path / "node_modules" / "axe-core" / "axe.min.js"
    driver.get((folder / "index.html").as_uri())
    wait_for(driver, "state", "")
    driver.find_element("id", "source").send_keys(SENTENCES[0])
    driver.execute_script(script.read_text("utf-8"))
    for scheme in "light", "dark":
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": features}
        )
        found = driver.execute_async_script("axe.run().then(arguments[0])")
        assert found["passes"]
        assert [each["id"] for each in found["violations"]] == []
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_missing_files_are_reported(driver, folder, tmp_path):
    shutil.copy(folder / "index.html", tmp_path)
    driver.get((tmp_path / "index.html").as_uri())
    wait_for(driver, "state", "Error: the files beside this page are missing.")
    driver.get_log("browser")


def test_the_weights_are_those_of_the_model_in_127_steps():
    model, rounded = tiny.model(), tiny.model()
    round_weights(rounded)
    for weight, other in zip(model.weights, rounded.weights):
        array, other = np.asarray(weight), np.asarray(other)
        if array.ndim == 2:
            axis = 1 if weight.name == "embeddings" else 0
            step = np.abs(array).max(axis, keepdims=True) / 127
            assert (np.abs(other - array) <= 0.501 * step).all()
            whole = other / step
            np.testing.assert_allclose(whole, np.rint(whole), atol=1e-3)
        else:
            np.testing.assert_array_equal(array, other)


@needs_node
def test_the_check_finds_other_weights_and_other_ids():
    vocabulary = made_up_text.vocabulary()
    files = make_files(tiny.model(seed=5), vocabulary)
    result = check_files(files, tiny.model(seed=5), vocabulary)
    assert result.startswith("10 of 10 ")
    with pytest.raises(InputError, match="--nocheck"):
        check_files(files, tiny.model(seed=6), vocabulary)
    other = made_up_text.vocabulary(seed=2)
    with pytest.raises(InputError, match="--nocheck"):
        check_files(files, tiny.model(seed=5), other)
