"""Model cards, and models at URLs, with stand-ins of a hub in memory."""

import hashlib
import html
import json
import re
import shutil
import sys

import fsspec
import markdown
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from huggingface_hub import ModelCard

from export import load_translator, remote_models
from export.common.errors import InputError
from tests.export.commands import output_and_error

URLS = ("memory://models/m", "hf://owner/name@v1")
HOSTILE = "a`` ![b](c)\n---\n# d <script>|*e*\u202e"


class Hub(MemoryFileSystem):
    """Lists as HfFileSystem does: hashes, and names without a slash."""

    protocol = "hf"
    store, pseudo_dirs = {}, [""]

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("hf://"))

    def ls(self, path, detail=True, **kwargs):
        entries = super().ls(path)
        for entry in entries:
            content = self.store[entry["name"]].getvalue()
            entry["name"] = entry["name"].removeprefix("/")
            entry["created"] = hashlib.sha1(content).hexdigest()
        return entries if detail else [entry["name"] for entry in entries]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The folder of an empty cache; the hubs are empty too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    real = fsspec.get_filesystem_class("hf")
    fsspec.register_implementation("hf", Hub, clobber=True)
    yield tmp_path / "keras_translation" / "models"
    fsspec.register_implementation("hf", real, clobber=True)
    for hub in Hub, MemoryFileSystem:
        hub.store.clear()
        hub.pseudo_dirs[:] = [""]


@pytest.fixture
def folder(model_path, tmp_path):
    """A model directory with all records, and with a file of its training."""
    folder = shutil.copytree(model_path, tmp_path / "m")
    write_records(folder, "text:toy", "en")
    (folder / "checkpoint.npz").write_bytes(b"checkpoint")
    return folder


def write_records(folder, name, source):
    pair = {"source_language": source, "target_language": "pt_BR"}
    run = pair | {"dataset": name, "noise": name, "max_tokens": 64}
    score = pair | {"metric": "BLEU", "dataset": name, "split": name, "step": 7}
    score |= {"score": 31.4159, "signature": "tok:13a|v"}
    score |= {"chrf": {"score": 52.75, "signature": name}}
    earlier = score | {"step": 3, "score": 11.25}
    log = {"first_step": 0, "last_step": 4321, "seconds": 3723.0}
    log |= {"hardware": name, "command": name, "date": "2026-01-02"}
    train = {"shards": [{"num_pairs": 1000}, {"num_pairs": 234}]}
    train |= {"num_read": 1300, "source": {"unknown_characters": "\u00e4"}}
    train |= {"target": {"unknown_characters": "`"}}
    (folder / "data").mkdir(exist_ok=True)
    for path, content in (
        ("run.json", run),
        ("scores.json", [earlier, score | {"confidence_95": [30.5, 32.25]}]),
        ("training.json", {"runs": [log]}),
        ("data/manifest.json", {"splits": {"train": train}}),
    ):
        (folder / path).write_text(json.dumps(content))


def write_card(folder, *flags):
    """Returns the InputError's message, or None, and the card."""
    _, error = output_and_error("export.model_card", *flags)
    return error, ModelCard.load(folder / "README.md")


def test_hugging_face_reads_what_is_recorded(folder):
    flags = f"--model_dir={folder}", "--license=cc-by-4.0"
    _, card = write_card(folder, *flags)
    data = card.data.to_dict()
    assert data["language"] == ["en", "pt"]
    assert (data["license"], data["library_name"]) == ("cc-by-4.0", "keras")
    bleu, chrf = card.data.eval_results
    assert (bleu.metric_value, chrf.metric_value) == (31.4159, 52.75)
    assert (bleu.dataset_name, bleu.dataset_split) == ("text:toy", "text:toy")
    assert bleu.metric_args["signature"] == "tok:13a|v"
    for text in "30.50 to 32.25", "1,234", "1:02:03", "4,321", "`pt_BR`":
        assert text in card.text
    assert "11.25" not in card.text and "Licence: not recorded" in card.text


def test_any_text_of_the_records_stays_text(folder):
    write_records(folder, HOSTILE, HOSTILE)
    _, card = write_card(folder, f"--model_dir={folder}")
    cleaned = "a`` ![b](c) --- # d <script>|*e*"
    assert card.data.to_dict()["datasets"] == [cleaned]
    page = markdown.markdown(card.text, extensions=["fenced_code"])
    assert page.count("<h1>") == 1 and page.count("<h2>") == 4
    assert not re.search("<(script|img|em|hr)", page)
    assert html.unescape(page).count(cleaned) >= 8


def test_a_model_without_records(model_path, tmp_path):
    folder = shutil.copytree(model_path, tmp_path / "m")
    (folder / "run.json").unlink()
    size = sum(each.stat().st_size for each in folder.iterdir())
    _, card = write_card(folder, f"--model_dir={folder}")
    assert card.data.eval_results is None and not card.data.language
    assert card.text.count("not recorded") > 6
    assert f"{size:,} bytes" in card.text


def test_the_lines_of_a_card_translate(
    exported, translator, monkeypatch, tmp_path, capsys
):
    path = tmp_path / "README.md"
    flags = f"--export={exported.parent}", f"--output={path}"
    _, card = write_card(tmp_path, *flags)
    (code,) = re.findall("```python\n(.*?)```", card.text, re.DOTALL)
    monkeypatch.setattr("builtins.input", lambda prompt: "ba ka.")
    exec(code, {})
    expected = translator.translate(["ba ka."])[0].text
    assert capsys.readouterr().out == f"{expected}\n"


def test_files_of_the_user_and_damaged_records_are_refused(folder):
    flags = f"--model_dir={folder}", f"--publish={URLS[1]}"
    Hub().pipe_file(f"{URLS[1]}/README.md", b"mine")
    _, error = output_and_error("export.model_card", *flags)
    assert "name@v1" in error and not (folder / "README.md").exists()
    Hub.store.clear()
    for name, content in (
        ("README.md", "mine"),
        ("training.json", '{"runs": 3}'),
    ):
        (folder / name).write_text(content)
        _, error = output_and_error("export.model_card", *flags)
        assert str(folder) in error
    assert (folder / "README.md").read_text() == "mine" and not Hub.store


@pytest.mark.parametrize("url", URLS)
def test_a_published_model_is_downloaded_once(url, folder, translator, cache):
    flags = f"--model_dir={folder}", f"--publish={url}"
    assert [write_card(folder, *flags)[0] for _ in range(2)] == [None, None]
    hub = fsspec.open(url).fs
    names = {each.rpartition("/")[2] for each in hub.ls(url, detail=False)}
    assert names == {*remote_models.MODEL_FILES}
    hub.pipe_file(f"{url}/large.bin", b"not needed")
    first = remote_models.download_model(url)
    assert {each.name for each in first.iterdir()} == names
    (first / "mark").touch()
    actual = load_translator(url).translate(["ba ka.", "da"])
    expected = translator.translate(["ba ka.", "da"])
    assert [each.text for each in actual] == [each.text for each in expected]
    assert [*cache.iterdir()] == [first] and (first / "mark").exists()
    hub.pipe_file(f"{url}/run.json", b"{}")
    second = remote_models.download_model(url)
    assert second != first and (second / "run.json").read_text() == "{}"


def test_a_stopped_download_leaves_nothing(folder, cache, monkeypatch):
    write_card(folder, f"--model_dir={folder}", f"--publish={URLS[1]}")

    def stop(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(remote_models.ProgressBar, "update", stop)
        with pytest.raises(KeyboardInterrupt):
            remote_models.download_model(URLS[1])
    listing = Hub().ls(URLS[1])
    for difference in (1, -1):
        changed = [
            each | {"size": each["size"] + difference} for each in listing
        ]
        with monkeypatch.context() as patch:
            patch.setattr(Hub, "ls", lambda *_, result=changed, **__: result)
            with pytest.raises(InputError, match="vocabulary.model"):
                remote_models.download_model(URLS[1])
    assert [*cache.iterdir()] == []
    assert remote_models.download_model(URLS[1]).is_dir()


def test_what_cannot_be_downloaded_is_named(cache, monkeypatch):
    Hub().pipe_file("hf://owner/other/model.safetensors", b"a")
    for name, reason in ("other", "config.json"), ("none", "owner/none"):
        with pytest.raises(InputError, match=reason):
            load_translator(f"hf://owner/{name}")

    def fail(*arguments, **options):
        raise RuntimeError("no network\nhere")

    monkeypatch.setattr(Hub, "ls", fail)
    with pytest.raises(InputError, match="no network here"):
        load_translator(URLS[1])
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"\[hf\]"):
        load_translator(URLS[1])
    assert not cache.exists()
