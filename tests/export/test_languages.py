"""Models of several languages: tags of the target, or of both languages."""

import json

import numpy as np
import pytest

from export.attention_views.reader import AttentionReader
from export.client.remote_backend import RemoteBackend, ServedModel
from export.client.rest_server import RestServer
from export.common.errors import InputError
from export.documents.document import translate_documents
from export.http_server.app import ServerLimits
from export.http_server.model_set import ModelSet
from export.http_server.models import load_model
from export.loading import LoadedModel, load_translator
from export.model_directory import ModelDirectory
from export.saved_model import save
from export.serving.export_directory import (
    make_description,
    read_export_languages,
)
from export.serving.served_translator import ServedTranslator
from export.terms.terms import Terms
from export.tokenizers import pretrained_tokenizers
from export.tokenizers.python_tokenizers import load_python_tokenizers
from export.translators.languages import Languages
from export.translators.signature_backend import SignatureBackend
from export.translators.translator import Translator
from tests.export import commands, odd_vocabularies, tiny
from tests.export.http_server.running import request, run_server
from tests.export.many_languages import CODES, vocabulary, write_model

TEXTS = ["ba ka lo", "mi", "", " ", "sa to ne 語 di."]
TAGS = {"target": [">>deu_Latn<<"], "pair": [">>eng_Latn<<", ">>deu_Latn<<"]}


@pytest.fixture(
    scope="module",
    params=[pytest.param("target", marks=pytest.mark.slow), "pair"],
)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def model_path(kind, tmp_path_factory):
    return write_model(tmp_path_factory.mktemp(kind) / "model", kind)


@pytest.fixture(scope="module")
def translator(model_path):
    return load_translator(model_path)


def select(translator, target="deu_Latn"):
    """For English, if sources have a tag."""
    has_source = "source" in translator.languages.tag_sides
    return translator.for_languages(has_source and "eng_Latn" or None, target)


def test_codes_may_be_spelled_otherwise():
    languages = Languages(CODES, 2)
    for code in CODES:
        for spelling in (code.upper(), code.lower(), code.replace("_", "-")):
            found = languages.select(spelling, spelling)
            assert found == languages.select(code, code)
    english = Languages(source="en", target="pt-BR")
    assert english.select("EN", "pt_br") == english
    for other in ("pt", "pt-PT", ""):
        with pytest.raises(InputError, match="pt-BR"):
            english.select("en", other)


def test_tags_become_ids(kind):
    proto = vocabulary(kind)
    python, _ = load_python_tokenizers(proto)
    tokenizer = pretrained_tokenizers.load_tokenizer(proto).source
    plain, *_ = load_python_tokenizers(odd_vocabularies.proto("nmt_nfkc"))
    tags = "".join(TAGS[kind])
    deu, eng = tokenizer.encode([">>deu_Latn<<a", ">>eng_Latn<<a"])
    text = python.ids(f"{tags}ba ka.")
    expected = {"target": [deu[0]], "pair": [deu[0], eng[0]]}[kind]
    assert text[: len(expected)] == expected
    unknown = [] if kind == "target" else [1, 1]
    assert python.ids("ba ka.") == [*unknown, *text[len(expected) :]]
    texts = [
        *(tags + each for each in TEXTS),
        *TEXTS,
        *(f" {tags} {each} {tags}" for each in TEXTS),
        ">>deu_Latn<<ba",
        ">>xyz<<>>eng_Latn<<ba",
        ">>eng_Latn<< >>xyz<< ba",
        ">>x y<< ba",
        ">>deu_Latn<<",
        ">>deu_Latn<<>>fra_Latn<< >>eng_Latn<<",
    ]
    for text, ids in zip(texts, tokenizer.encode(texts), strict=True):
        assert ids.tolist() == python.ids(text), text
    for blank in ("", tags, f" {tags} "):
        assert python.ids(blank) == [3]
    assert tokenizer.languages == python.languages == CODES
    assert plain.languages == ()


@pytest.mark.slow
def test_languages_are_tags_of_the_text(kind, translator, eager):
    tags = "".join(TAGS[kind])
    german = select(translator)
    tagged = [tags + each if each.strip() else each for each in TEXTS]
    expected = translator.n_best(tagged, 3)
    assert german.n_best(TEXTS, 3) == expected
    # Tags have precedence.
    assert select(translator, "fra_Latn").n_best(tagged, 3) == expected
    french = select(translator, "fra_Latn").translate(TEXTS)
    assert french != german.translate(TEXTS)
    aligned = german.align(TEXTS)
    assert [each.text for each in aligned] == [
        each[0].text for each in expected
    ]
    for text, each in zip(TEXTS, aligned):
        pairs = np.array(each.alignment).reshape(-1, 2)
        counts = len(text.split()), len(each.text.split())
        assert (pairs < counts).all()
    assert german.score(TEXTS, TEXTS) == translator.score(tagged, TEXTS)
    assert german.sample(TEXTS, range(5)) == translator.sample(tagged, range(5))
    assert german.translate_document("Ba ka lo. Mi sa.\n")


def test_what_looks_like_a_tag_is_text(kind, translator, eager):
    german = select(translator)
    tags = "".join(TAGS[kind])
    for text in (">>Hallo<< ba", ">>deu<< ba", ">>x<<>>fra_Latn<<ba"):
        (found,) = german.translate([text])
        # Tags that are given are followed by text in any case.
        assert found == translator.translate([f"{tags}{text}"])[0]
        ids = german.sentences([text])[0].ids
        own_ids = german.sentences(["ba"])[0].ids[: len(TAGS[kind])]
        assert ids[: len(own_ids)].tolist() == own_ids.tolist()
    with pytest.raises(InputError, match="language"):
        translator.translate([">>Hallo<< ba"])


def test_terms_are_not_those_of_a_tag(translator, eager):
    german = select(translator)
    terms = Terms([("deu_Latn", "mi"), ("Latn", "ne"), ("ka", "lo")])
    for text in ("ba", ">>fra_Latn<<ba"):
        expected = german.translate([text])
        assert german.translate([text], terms=terms) == expected
    assert "lo" in german.translate(["ba ka"], terms=terms)[0].text


def test_the_tags_of_a_document_are_those_of_its_sentences(
    kind, translator, eager
):
    german = select(translator)
    text = "Ba ka lo. Mi sa.\n\nSa to ne.\n"
    expected = {
        code: select(translator, code).translate_document(text)
        for code in ("deu_Latn", "fra_Latn")
    }
    assert expected["deu_Latn"] != expected["fra_Latn"]
    tags = "".join(TAGS[kind])
    documents = [f">>fra_Latn<< {text}", text, f">>fra_Latn<<{text}", tags, ""]
    assert translate_documents(german, documents, "text") == [
        expected["fra_Latn"],
        expected["deu_Latn"],
        expected["fra_Latn"],
        "",
        "",
    ]
    assert translator.translate_document(tags + text) == expected["deu_Latn"]


def test_attention_is_that_of_the_words(translator):
    (maps,) = AttentionReader(select(translator)).read(["ba ka lo"])
    assert maps.text == "ba ka lo"
    assert maps.source_words.max() == 2
    np.testing.assert_allclose(maps.cross.sum(axis=-1), 1.0, atol=1e-5)


def test_unknown_languages_are_refused(kind, translator):
    with pytest.raises(InputError, match="deu_Latn"):
        translator.for_languages(target="deu")
    with pytest.raises(InputError, match="target_language"):
        select(translator, None).translate(["ba"])
    if kind == "pair":
        with pytest.raises(InputError, match="source_language"):
            translator.for_languages(target="deu_Latn").translate(["ba"])
        return
    # No tag: it only decides where sentences of a document end.
    other = translator.for_languages("de", "deu_Latn")
    assert other.languages.source == "de"
    with pytest.raises(InputError, match="source_language"):
        other.for_languages("fr")


def test_a_model_of_one_pair(tmp_path):
    tiny.write(tmp_path)
    ModelDirectory(tmp_path).write_run(
        {"source_language": "en", "target_language": "fr"}
    )
    translator = load_translator(tmp_path)
    same = translator.for_languages("en", "fr")
    assert same.translate(["ba"]) == translator.translate(["ba"])
    with pytest.raises(InputError, match="fr"):
        translator.for_languages(target="de")


def test_commands(kind, model_path, translator, eager):
    arguments = ["--target_language=deu_Latn"]
    if kind == "pair":
        arguments.append("--source_language=eng_Latn")
    expected = select(translator).translate(TEXTS)
    code, output, _ = commands.run(
        "export.translate", model_path, TEXTS, *arguments
    )
    assert (code, output) == (0, [each.text for each in expected])
    code, _, errors = commands.run("export.translate", model_path, TEXTS)
    assert code == 2 and "_language, such as deu_Latn" in errors[-1]


SEARCH = {"max_source_tokens": 32}
PAIR = {"source_language": "eng_Latn", "target_language": "fra_Latn"}


@pytest.mark.slow
def test_exports_pass_the_check(kind, model_path, translator, tmp_path):
    version = tmp_path / "1"
    search = SEARCH | (PAIR if kind == "pair" else {})
    save(ModelDirectory(model_path), version, search, check=True)
    exported = load_translator(version)
    assert exported.languages.codes == CODES
    expected = select(translator).translate(TEXTS)
    translated = select(exported).translate(TEXTS)
    assert [each.text for each in translated] == [e.text for e in expected]


def test_signatures(kind, model_path, translator, eager):
    directory = ModelDirectory(model_path)
    if kind == "pair":
        with pytest.raises(InputError, match="source_language"):
            ServedTranslator.from_directory(directory, **SEARCH)
    servable = ServedTranslator.from_directory(
        directory, **SEARCH | (PAIR if kind == "pair" else {})
    )
    languages = read_export_languages(make_description(directory, servable))
    assert languages == servable.languages

    def run(name, inputs):
        outputs = servable.signatures()[name](**inputs)
        return {key: outputs[key].numpy() for key in outputs}

    served = Translator(SignatureBackend(run, servable.signatures()), languages)
    german, english = select(translator), ["eng_Latn"] * 5
    expected = [each.text for each in german.translate(TEXTS)]
    found = select(served).translate(TEXTS)
    assert [each.text for each in found] == expected
    outputs = served.backend.run(
        "translate_languages",
        TEXTS,
        source_language=english,
        target_language=["deu_Latn"] * 4 + ["xyz"],
    )
    texts = [each.decode() for each in outputs["translation"]]
    assert texts == [*expected[:4], ""]
    assert outputs["score"][4] == -1e9
    texts = ["ba", ">>deu_Latn<< ba"]
    terms = {"source_terms": [["deu_Latn"]] * 2, "target_terms": [["mi"]] * 2}
    with_terms = served.backend.run("translate_with_terms", texts, **terms)
    plain = served.backend.run("serving_default", texts)
    assert list(with_terms["translation"]) == list(plain["translation"])
    outputs = served.backend.run(
        "translate_languages",
        [">>Hallo<< ba"],
        source_language=english[:1],
        target_language=["deu_Latn"],
    )
    (expected,) = german.translate([">>Hallo<< ba"])
    assert outputs["translation"][0].decode() == expected.text
    translations = ["ka ba.", "lo", "", "ba", "mi sa ne"]
    np.testing.assert_allclose(
        select(served).score(TEXTS, translations),
        german.score(TEXTS, translations),
        rtol=1e-5,
    )
    lengths, expected = (
        [each.length for each in translator.target_sentences(translations)]
        for translator in (select(served), german)
    )
    assert lengths == expected
    ids = german.tokenizer.target.encode(translations)
    assert lengths == [*map(len, ids)]
    if kind == "pair":
        french = select(translator, "fra_Latn").translate(TEXTS)
        default = served.translate(TEXTS)
        assert [each.text for each in default] == [e.text for e in french]


def test_server_and_client(kind, model_path, translator, eager):
    languages = PAIR.values() if kind == "pair" else (None, None)
    model = load_model(model_path, SEARCH, languages)
    model_server = type("Loaded", (), {"load": lambda self: model})()
    expected = [each.text for each in select(translator).translate(TEXTS)]
    with run_server(model_server) as url:
        languages = request(f"{url}/languages")[1]
        assert {*languages[0]["targets"]} == {*CODES}
        assert len(languages) == (3 if kind == "pair" else 1)
        content = {"q": TEXTS, "source": "auto", "target": "deu_Latn"}
        status, response = request(f"{url}/translate", content)
        assert (status, response["translatedText"]) == (
            200,
            [one or text for one, text in zip(expected, TEXTS)],
        )
        assert request(f"{url}/translate", content | {"target": "x"})[0] == 400
        server = RestServer(url, ServedModel("translator"), 30)
        remote = Translator(RemoteBackend(server, 8, 0))
        # Only one kind of models has a tag for the source's language.
        for german in (
            select(remote),
            remote.for_languages("eng_Latn", "deu_Latn"),
        ):
            assert [each.text for each in german.translate(TEXTS)] == expected
        with pytest.raises(InputError, match="xyz"):
            remote.for_languages(target="xyz")


def test_default_languages_come_first():
    listed = list_languages(Languages(CODES, 2, "eng_Latn", "fra_Latn"))
    assert [each["code"] for each in listed][0] == "eng_Latn"
    assert listed[0]["targets"][0] == "fra_Latn"
    (unknown,) = list_languages(Languages())
    assert (unknown["code"], unknown["targets"]) == ("und", ["und"])
    json.dumps(listed)


def list_languages(languages):
    model = LoadedModel(lambda *_: {}, {}, 1, languages)
    models = ModelSet({"m": model}, ServerLimits(num_threads=1))
    listed = models.list_languages()
    models.close()
    return listed
