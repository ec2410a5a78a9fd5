"""Several models in one server: routes, detection, keys."""

import json
import sys
import urllib.request

import pytest

from export.common.errors import InputError
from export.http_server import detection
from export.http_server.api_keys import ApiKeys
from export.http_server.app import ServerLimits
from export.translators.languages import Languages
from tests.export.http_server.running import (
    MadeUpModel,
    request,
    run_server,
)

ENGLISH, FRENCH = "Where is the railway station?", "Où est donc la gare ?"


def pair(source, target):
    return MadeUpModel(Languages(source=source, target=target))


@pytest.fixture(name="models", scope="module")
def fixture_models():
    codes = ("en", "fr"), ("fr", "en"), ("fr", "de"), ("de", "pl")
    return {"_".join(each): pair(*each) for each in codes}


@pytest.fixture(name="url", scope="module")
def fixture_url(models):
    with run_server(models) as url:
        yield url


def translate(url, text, source, target, **fields):
    content = {"q": text, "source": source, "target": target, **fields}
    return request(f"{url}/translate", content)


def test_languages_have_the_targets_of_all_models(url):
    _, languages = request(f"{url}/languages")
    found = {each["code"]: set(each["targets"]) for each in languages}
    assert found == {
        "en": {"fr", "de"},
        "fr": {"en", "de", "pl"},
        "de": {"pl"},
    }
    (english,) = (each for each in languages if each["code"] == "en")
    assert english["models"] == {"fr": "en_fr"}


def test_the_languages_choose_the_model(url, models):
    before = {name: len(each.batches) for name, each in models.items()}
    assert translate(url, "a b", "fr", "de") == (200, {"translatedText": "B A"})
    used = {
        name
        for name, each in models.items()
        if len(each.batches) > before[name]
    }
    assert used == {"fr_de"}


def test_a_third_language_joins_two_models(url):
    found = translate(url, ["a b", "c"], "en", "de", alternatives=1)
    assert found == (
        200,
        {
            "translatedText": ["A B", "C"],
            "alternatives": [["A B!"], ["C!"]],
            "pivot": ["fr", "fr"],
        },
    )


def test_pairs_without_models_are_refused(url):
    for source, target in ("en", "pl"), ("pl", "en"), ("en", "xx"):
        status, response = translate(url, "a", source, target)
        assert status == 400
        assert source in response["error"] and target in response["error"]


def test_each_model_has_a_path_of_tensorflow_serving(url):
    for name in "en_fr", "de_pl":
        path = f"{url}/v1/models/{name}:predict"
        _, response = request(path, {"instances": ["a b"]})
        assert response["predictions"][0]["translation"] == "B A"


def test_detection(url):
    pytest.importorskip("py3langid")
    for text, code in (ENGLISH, "en"), (FRENCH, "fr"):
        _, (found,) = request(f"{url}/detect", {"q": text})
        assert found["language"] == code
        assert 50 < found["confidence"] <= 100
    # Each text by the model of its language.
    status, response = translate(url, [ENGLISH, FRENCH], "auto", "de")
    assert status == 200
    codes = [each["language"] for each in response["detectedLanguage"]]
    assert codes == ["en", "fr"]
    assert len(response["translatedText"]) == 2


def test_without_the_package(url, monkeypatch):
    monkeypatch.setattr(detection, "can_detect", lambda: False)
    for path in "detect", "translate":
        content = {"q": ENGLISH, "source": "auto", "target": "de"}
        status, response = request(f"{url}/{path}", content)
        assert status == 501 and "languages" in response["error"]


def test_other_paths(url):
    _, settings = request(f"{url}/frontend/settings")
    assert settings["language"]["target"]["code"] == "fr"
    assert not settings["keyRequired"]
    status, _ = request(f"{url}/suggest", {"q": "a", "s": "b"})
    assert status == 403
    _, description = request(f"{url}/docs")
    for path in description["paths"]:
        if "{" in path:
            continue
        status, _ = request(url + path)
        assert status in (200, 405)


def test_keys_have_limits():
    with run_server(pair("en", "fr"), {"often": None, "once": 1}) as url:
        keys = "often", "often", "once", "once", "other", "often"
        found = [translate(url, "a", "en", "fr", api_key=key) for key in keys]
        assert [status for status, _ in found] == [200, 200, 200, 429, 403, 200]


def test_files_of_keys(tmp_path):
    path = tmp_path / "keys"
    path.write_text("# of us\n\nabc\nxyz 20\n", "utf-8")
    ApiKeys.from_file(path).validate("xyz")
    for text in "", "a b c", "a 0", "a\na":
        path.write_text(text, "utf-8")
        with pytest.raises(InputError, match="keys"):
            ApiKeys.from_file(path)
    with pytest.raises(InputError, match="none"):
        ApiKeys.from_file(tmp_path / "none")


def upload(url, name, content, headers=None, **fields):
    parts = [
        f'Content-Disposition: form-data; name="{key}"\r\n\r\n{value}'.encode()
        for key, value in fields.items()
    ]
    head = f'Content-Disposition: form-data; name="file"; filename="{name}"'
    parts.append(f"{head}\r\n\r\n".encode() + content)
    body = b"".join(b"--x-y\r\n" + part + b"\r\n" for part in parts)
    return request(
        f"{url}/translate_file",
        body + b"--x-y--\r\n",
        {
            "Content-Type": "multipart/form-data; boundary=x-y",
            **(headers or {}),
        },
    )


def test_files(url):
    """Also by way of a third language."""
    for target, words in ("fr", "B A"), ("de", "A B"):
        status, response = upload(
            url,
            "of/né.json",
            b'{"x": "a b", "n": 1}',
            source="en",
            target=target,
        )
        assert status == 200
        address = response["translatedFileUrl"]
        assert address.startswith(f"{url}/download_file/")
        assert address.endswith("/n%C3%A9.json")
        assert request(address) == (200, {"x": words, "n": 1})
    assert request(f"{url}/download_file/x/n.json")[0] == 404


def test_files_in_other_encodings(url):
    content = '{"x": "né"}'.encode("cp1252")
    arguments = url, "a.json", content
    fields = {"source": "en", "target": "fr"}
    _, response = upload(*arguments, **fields, encoding="cp1252")
    address = response["translatedFileUrl"]
    with urllib.request.urlopen(address) as file:
        assert file.read() == '{"x": "NÉ"}'.encode("cp1252")
    for encoding in "", "utf-7", "utf-8":
        status, error = upload(*arguments, **fields, encoding=encoding)
        assert status == 400 and list(error) == ["error"]


def read_events(url, name, content, **fields):
    """Returns the events of a file's translation, (name, content) each."""
    accept = {"Accept": "text/event-stream"}
    status, text = upload(url, name, content, accept, **fields)
    assert status == 200
    events = [event.split("\n") for event in text.strip().split("\n\n")]
    return [
        (
            first.removeprefix("event: "),
            json.loads(second.removeprefix("data: ")),
        )
        for first, second in events
    ]


def test_the_progress_of_a_file(url):
    lines = [f"word {number}." for number in range(300)]
    content = "\n\n".join(lines).encode()
    for target in "fr", "de":
        events = read_events(url, "a.txt", content, source="en", target=target)
        *progress, (last, result) = events
        assert {name for name, _ in progress} == {"progress"}
        parts = [each["progress"] for _, each in progress]
        assert len(parts) > 1 and parts == sorted(parts)
        assert 0 < parts[0] < parts[-1] == 1
        assert last == "result"
        status, text = request(result["translatedFileUrl"])
        assert status == 200 and "299" in text
    events = read_events(url, "a.json", b"{", source="en", target="fr")
    ((name, content),) = events
    assert (name, content["status"]) == ("error", 400)
    assert "JSON" in content["error"]


def test_terms_of_files(url):
    fields = {"source": "en", "terms": "a\tT\nb\tU"}
    status, response = upload(url, "a.txt", b"a x b", target="fr", **fields)
    assert status == 200
    assert request(response["translatedFileUrl"]) == (200, "U X T")
    status, response = upload(url, "a.txt", b"a", target="de", **fields)
    assert status == 400 and "pivot" in response["error"]


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("a.json", b"{", "JSON"),
        ("a.exe", b"MZ", "ending"),
        ("a.docx", b"PK\3\4", "zip"),
    ],
)
def test_wrong_files(url, name, content, word):
    status, response = upload(url, name, content, source="en", target="fr")
    assert status == 400 and word in response["error"]
    status, _ = request(f"{url}/translate_file", {"file": "a", "target": "fr"})
    assert status == 400


def test_a_missing_package_for_a_file(url, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    monkeypatch.delitem(sys.modules, "export.formats.data_files", False)
    status, response = upload(url, "a.yaml", b"a: b", source="en", target="fr")
    assert status == 501 and "yaml" in response["error"]


def test_other_origins_are_off_by_default():
    assert not ServerLimits().any_origin
    with (
        run_server(pair("en", "fr"), any_origin=False) as url,
        urllib.request.urlopen(f"{url}/languages", timeout=60) as response,
    ):
        assert response.headers["Access-Control-Allow-Origin"] is None
